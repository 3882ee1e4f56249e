"""Pictures of every page of `page_list` in both themes and two widths: `python -m tests.screenshots FOLDER [NAME...]`.

Starts the product in a data folder of its own and runs a real search; what that cannot show (a GPU, rules in every
state) is added as rows. When `ADAEXPLORE_FIXTURES` names a folder with `recorded_searches/`, the import is one of them.
With names, only pages whose name contains one of them are taken. `--chosen` takes the few that the documents show, the
window only: `python -m tests.screenshots docs/img --chosen`.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, BrowserContext, Error, Page, ViewportSize

from tests import page_list
from tests.browser.chromium import launched
from tests.browser.stack import Stack, wait_for
from tests.page_list import Sight

WIDTHS = {"wide": 1400, "narrow": 320}
STEPS = 20
# The real ones of the documents, and their names in docs/img: no picture there shows a number that nobody measured.
CHOSEN = {"cockpit-drawer": "cockpit", "evaluation-modelled": "evaluation"}


def viewport(width: int) -> ViewportSize:
    return {"width": width, "height": 900 if width > 700 else 720}


@dataclass
class Tour:
    """One product, its signed-in browsers and the names that stand in the paths of the list."""

    stack: Stack
    browser: Browser
    folder: Path
    only: list[str]
    people: dict[str, BrowserContext] = field(default_factory=dict)
    names: dict[str, Any] = field(default_factory=dict)
    taken: int = 0
    chosen: bool = False

    def sign_in(self) -> None:
        self.people["nobody"] = self.browser.new_context()
        for name, role in {"ada": "admin", "vera": "viewer"}.items():
            link = self.stack.manage("signin_link", "--user", name, "--role", role).strip()
            self.people[name] = self.browser.new_context()
            page = self.people[name].new_page()
            page.goto(link)
            page.close()

    def take(self, sights: list[Sight]) -> None:
        for sight in sights:
            if self.wanted(sight.name):
                sizes = {size: width for size, width in WIDTHS.items() if not self.chosen or size == "wide"}
                for some in [sizes] if sight.once else [{size: width} for size, width in sizes.items()]:
                    self.pictures(sight, some)
                print(sight.name, flush=True)

    def wanted(self, name: str) -> bool:
        return name in CHOSEN if self.chosen else not self.only or any(part in name for part in self.only)

    def place(self, name: str, size: str, scheme: str) -> Path:
        if self.chosen:
            return self.folder / f"{CHOSEN[name]}{'-dark' if scheme == 'dark' else ''}.png"
        return self.folder / f"{name}-{size}-{scheme}.png"

    def pictures(self, sight: Sight, sizes: dict[str, int]) -> None:
        """Open the page once, at the first of these widths."""
        page = self.people[sight.who].new_page()
        width = next(iter(sizes.values()))
        page.set_viewport_size(viewport(width))
        page.emulate_media(color_scheme="light")
        page.goto(self.stack.address + sight.path.format_map(self.names))
        try:
            if sight.act:
                sight.act(page)
            page_list.settle(page)
        except Error as error:
            print(f"{sight.name}, {width}: {error.message.splitlines()[0]}")
        for size, width in sizes.items():
            page.set_viewport_size(viewport(width))
            for scheme in ("light", "dark"):
                self.shoot(page, sight, size, scheme)
        page.close()

    def shoot(self, page: Page, sight: Sight, size: str, scheme: str) -> None:
        page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
        page.wait_for_timeout(250)
        whole = not (sight.window or self.chosen)
        if whole:
            page.evaluate("scrollTo(0, 0)")  # else the bar lies where an act has scrolled to
        page.screenshot(path=self.place(sight.name, size, scheme), full_page=whole)
        self.taken += 1

    def start(self, name: str, problem: str, proposer: str = "builtin", steps: int = STEPS) -> None:
        page = self.people["ada"].new_page()
        page.goto(f"{self.stack.address}/new?problem={problem}")
        page.get_by_label("Steps").fill(str(steps))
        page.get_by_label("Seed").fill("7")
        page.locator(f"input[name=proposer][value={proposer}]").check()
        page.locator("#start-button").click()
        page.wait_for_url("**/s/*/**", timeout=60_000)
        self.names[name] = int(page.url.split("/s/")[1].split("/")[0])
        page.close()

    def wait_told(self, name: str, count: int) -> None:
        """Until `count` candidates of a search have a verdict."""

        def enough() -> bool:
            answer = self.people["ada"].request.get(f"{self.stack.address}/s/{self.names[name]}/snapshot").json()
            return sum(order is not None for order in answer["nodes"]["o"]) >= count

        wait_for(enough, 180, f"{count} candidates of {name}")

    def find_best(self) -> None:
        page = self.people["ada"].new_page()
        page.goto(f"{self.stack.address}/s/{self.names['run']}/")
        self.names["best"] = int(page.locator(".fact-best a[data-node]").get_attribute("data-node") or 0)
        nodes = page.request.get(f"{self.stack.address}/s/{self.names['run']}/snapshot").json()["nodes"]
        told = [number for number, order in zip(nodes["n"], nodes["o"], strict=True) if number and order is not None]
        self.names["other"] = next(number for number in told if number != self.names["best"])
        page.goto(f"{self.stack.address}/s/{self.names['run']}/n/{self.names['best']}/")
        link = page.get_by_role("link", name="Evaluation").get_attribute("href") or ""
        self.names["modelled_evaluation"] = int(link.strip("/").split("/")[-1])
        page.close()

    def start_campaign(self) -> None:
        """One whose first search has ended or is on its way."""
        choice = ("--problems", "row_softmax", "rms_norm_bf16", "attention", "--steps", "6", "--detach")
        self.names["campaign"] = int(self.stack.manage("campaign", "start", *choice).split()[1].rstrip(":"))

    def start_adapt(self) -> None:
        """One whose first task is on its way, or done."""
        choice = ("--tasks", "3", "--steps", "3", "--control-steps", "2", "--seed", "1", "--detach")
        self.names["adapt"] = int(self.stack.manage("adapt", *choice).split("adapt run ")[1].split(".")[0])

    def add(self, *rows: str) -> None:
        """Rows of these functions of `page_rows`."""
        for name in rows:
            text = f"import json; from tests import page_rows; print(json.dumps(page_rows.{name}()))"
            self.names |= json.loads(self.stack.manage("shell", "--no-imports", "-c", text))

    def add_import(self) -> None:
        """A published recorded search when there is one, else a small one."""
        place = Path(os.environ.get("ADAEXPLORE_FIXTURES", "")) / "recorded_searches"
        files = sorted(place.glob("*.json.gz")) if "ADAEXPLORE_FIXTURES" in os.environ else []
        if files:
            said = self.stack.manage("import_search", str(files[0]))
            self.names |= {"imported": int(said.split("run ")[1].split(",")[0]), "imported_node": 40}
        else:
            self.add("imported")


def tour(folder: Path, only: list[str], chosen: bool = False) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="adaexplore-pictures-") as data, launched() as browser:
        stack = Stack(Path(data) / "data", DJANGO_SETTINGS_MODULE="tests.mistaken_site").start()
        try:
            tour = Tour(stack, browser, folder, only, chosen=chosen)
            walk(tour)
            print(f"{tour.taken} pictures in {folder}")
        finally:
            stack.stop()


def walk(tour: Tour) -> None:
    tour.sign_in()
    tour.take(page_list.EMPTY)
    tour.add("paused")
    tour.take(page_list.YOUNG)
    tour.take(page_list.WORKED)
    tour.names["problem"] = "layer_norm_gelu"
    tour.start("run", "layer_norm_gelu")
    tour.wait_told("run", 4)
    tour.take([Sight("cockpit-running", "/s/{run}/")])
    tour.start("manual", "swiglu", "manual", 3)
    tour.wait_told("run", STEPS + 1)  # with the root
    tour.find_best()
    tour.start_campaign()
    tour.start_adapt()
    tour.add("judged", "reviewed", "shown")
    tour.add_import()
    tour.take([*page_list.FULL, *page_list.JUDGED, *page_list.REVIEWED, *page_list.IMPORTED])


if __name__ == "__main__":
    if len(sys.argv) < 2:
        raise SystemExit(__doc__)
    tour(Path(sys.argv[1]), [name for name in sys.argv[2:] if name != "--chosen"], chosen="--chosen" in sys.argv)
