"""Every page in every state, in real Chromium: axe in both themes, reflow, zoom, reduced motion, focus, no faults."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, CDPSession, Page

from tests import page_list
from tests.browser.conftest import stacked
from tests.browser.live import LiveStack
from tests.browser.watch import Faults
from tests.page_list import Sight
from tests.tools import axe_script

pytestmark = pytest.mark.browser
BY_SIZE = "{rules: ['target-size', 'scrollable-region-focusable']}"  # rules whose answer depends on the width
CONTRAST = "{rules: ['color-contrast']}"
# A viewer's page is the operator's without forms: it is looked at only where it is another page.
VIEWERS = {"home-empty-viewer", "cockpit-viewer", "rules-viewer", "campaign-new-viewer"}
WIDE, NARROW, ZOOMED = (1280, 1), (320, 1), (640, 2)  # CSS px and device px for each; 640 is 1280 at 200 %
LOOK = Path(__file__).with_name("look.js").read_text()


class Sweep:
    """Looks at pages in one browser and keeps what is wrong, a line each."""

    def __init__(self, browser: Browser, stack: LiveStack, faults: Faults) -> None:
        self.stack, self.faults = stack, faults
        self.wrong: list[str] = []
        self.looked = 0
        self.names: dict[str, Any] = {}
        self.paints: dict[str, set[str]] = {"light": set(), "dark": set()}
        stack.write("person", name="vera", role="viewer")
        self.people = {
            "ada": stack.sign_in(browser, reduced_motion="reduce"),
            "vera": stack.sign_in(browser, name="vera", reduced_motion="reduce"),
            "nobody": browser.new_context(reduced_motion="reduce"),
        }
        for context in self.people.values():
            context.add_init_script(axe_script() + LOOK)
        self.tabs = {who: Tab(context) for who, context in self.people.items()}

    def close(self) -> None:
        for context in self.people.values():
            context.close()

    def walk(self, sights: list[Sight]) -> None:
        for sight in sights:
            if not sight.name.endswith("-viewer") or sight.name in VIEWERS:
                self.look(sight)
                self.looked += 1

    def look(self, sight: Sight) -> None:
        """One page: opened once, then looked at in three sizes and two themes."""
        tab = self.tabs[sight.who]
        tab.show(WIDE, "light")
        answer = tab.page.goto(self.stack.address + sight.path.format_map(self.names))
        assert answer is not None
        self.say(sight, [] if answer.status == sight.status else [f"status {answer.status}"])
        if sight.act:
            sight.act(tab.page)
        page_list.settle(tab.page)
        self.say(sight, tab.page.evaluate("() => look.once()"))
        self.say(sight, tab.page.evaluate(f"() => look.axe('light', 1280, {{contrast: {self.fresh(tab, 'light')}}})"))
        self.say(sight, tab.page.evaluate("() => look.focus()"))
        tab.show(WIDE, "dark")
        if self.fresh(tab, "dark") == "true":
            self.say(sight, tab.page.evaluate(f"() => look.axe('dark', 1280, {CONTRAST})"))
        tab.show(ZOOMED, "dark")
        self.say(sight, tab.page.evaluate("() => look.reflow(640)"))
        tab.show(NARROW, "dark")
        self.say(sight, tab.page.evaluate("() => look.reflow(320)"))
        self.say(sight, tab.page.evaluate(f"() => look.axe('dark', 320, {BY_SIZE})"))
        self.faults.forgive(*(f"status of {code}" for code in (sight.status, sight.answer) if code >= 400))
        self.say(sight, self.faults.settle())

    def fresh(self, tab: Tab, theme: str) -> str:
        """JSON: does the page hold a text in colours, or on a ground, that no page before it had in this theme?"""
        new = set(tab.page.evaluate("() => look.paints()")) - self.paints[theme]
        self.paints[theme] |= new
        return "true" if new else "false"

    def say(self, sight: Sight, wrong: list[str]) -> None:
        self.wrong += [f"{sight.name}: {what}" for what in wrong]


class Tab:
    """One page of a context whose size and density change without a reload."""

    def __init__(self, context: BrowserContext) -> None:
        self.page: Page = context.new_page()
        self.devtools: CDPSession = context.new_cdp_session(self.page)
        self.scheme = ""

    def show(self, size: tuple[int, int], scheme: Any) -> None:
        width, density = size
        metrics = {"width": width, "height": 900, "deviceScaleFactor": density, "mobile": False}
        self.devtools.send("Emulation.setDeviceMetricsOverride", metrics)
        if scheme != self.scheme:
            self.page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
            self.scheme = scheme


@pytest.fixture
def sweep(
    browser: Browser, faults: Faults, tmp_path_factory: pytest.TempPathFactory, migrated: Path
) -> Iterator[Sweep]:
    with stacked(tmp_path_factory, migrated) as stack:
        sweep = Sweep(browser, stack, faults)
        yield sweep
        sweep.close()


def test_every_page_in_every_state_is_in_order(sweep: Sweep) -> None:
    begun = time.monotonic()
    stages: list[tuple[str, list[Sight]]] = [
        ("", page_list.EMPTY),
        ("young", page_list.YOUNG),
        ("full", [*page_list.FULL, *page_list.JUDGED, *page_list.REVIEWED, *page_list.IMPORTED]),
    ]
    for rows, sights in stages:
        if rows:
            sweep.names |= sweep.stack.write(rows)
        sweep.walk(sights)
    print(f"{sweep.looked} states in {time.monotonic() - begun:.0f} s")  # noqa: T201
    assert not sweep.wrong, "\n".join(sweep.wrong)


@pytest.mark.parametrize(
    ("html", "what"),
    [
        ("<h1>a</h1><main><img src='data:,'></main>", "image-alt"),
        ("<main><p style='color:#aaa'>soft</p></main>", "no h1"),
        ("<main><h1>a</h1><p style='color:#bbb;background:#fff'>soft</p></main>", "color-contrast"),
        ("<main><h1>a</h1><div style='width:700px'>wide</div></main>", "wider than 640"),
        ("<main><h1>a</h1><a href='#' style='outline:none'>b</a></main>", "no visible focus"),
        ("<style>p{transition:color 1s}</style><main><h1>a</h1><p>b</p></main>", "moves"),
    ],
)
def test_the_sweep_sees_what_it_looks_for(browser: Browser, html: str, what: str) -> None:
    context = browser.new_context(reduced_motion="reduce")
    tab = Tab(context)
    tab.show(ZOOMED, "light")
    head = "<!doctype html><html lang='en'><head><title>t</title><link rel='icon' href='data:,'></head>"
    tab.page.set_content(f"{head}<body>{html}</body></html>")
    tab.page.evaluate(LOOK)
    tab.page.evaluate(axe_script())
    checks: tuple[Callable[[], Any], ...] = tuple(
        lambda call=call: tab.page.evaluate(f"() => look.{call}")  # type: ignore[misc]
        for call in ("once()", "axe('light', 640)", "focus()", "reflow(640)")
    )
    found = [line for check in checks for line in check()]
    context.close()
    assert any(what in line for line in found), found
