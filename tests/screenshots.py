"""Pictures of every page, light and dark, wide and narrow: `python -m tests.screenshots FOLDER [NAME...]`.

Starts the product in a data folder of its own and runs a real search. When `ADAEXPLORE_FIXTURES` names a folder with
`recorded_searches/`, one of them is imported too. With names, only pages whose name contains one of them are taken.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from playwright.sync_api import Browser, BrowserContext, Page

from tests.browser.chromium import launched
from tests.browser.stack import Stack, wait_for

INTERPRETER = "from judge.models import Device; print(Device.objects.get(name='interpreter').pk)"
WIDTHS = {"wide": 1400, "narrow": 320}
STEPS = 12
MODULE = """import time

import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x):
        return {body}


def get_inputs():
    return [torch.randn(16, 64)]


def get_init_inputs():
    return []


{tail}
"""


@dataclass
class Tour:
    """One product, its signed-in browsers and the numbers of its searches."""

    stack: Stack
    browser: Browser
    folder: Path
    only: list[str]
    people: dict[str, BrowserContext] = field(default_factory=dict)
    runs: dict[str, int] = field(default_factory=dict)
    spent: str = ""  # a one-time link that was used

    def sign_in(self) -> None:
        self.people["nobody"] = self.browser.new_context()
        for name, role in {"ada": "admin", "vera": "viewer"}.items():
            self.spent = self.stack.manage("signin_link", "--user", name, "--role", role).strip()
            self.people[name] = self.browser.new_context()
            page = self.people[name].new_page()
            page.goto(self.spent)
            page.close()

    def take(self, shots: list[Shot]) -> None:
        for shot in shots:
            if not self.only or any(part in shot.name for part in self.only):
                for size, width in WIDTHS.items():
                    self.picture(shot, size, width)
                print(shot.name, flush=True)

    def picture(self, shot: Shot, size: str, width: int) -> None:
        page = self.people[shot.who].new_page()
        page.set_viewport_size({"width": width, "height": 900 if width > 700 else 720})
        page.emulate_media(color_scheme="light")
        if shot.path:
            page.goto(self.address(shot.path))
        if shot.act:
            shot.act(page, self)
        for scheme in ("light", "dark"):
            page.emulate_media(color_scheme=scheme)
            page.wait_for_timeout(600)
            page.screenshot(path=self.folder / f"{shot.name}-{size}-{scheme}.png", full_page=not shot.window)
        over = page.evaluate("() => document.documentElement.scrollWidth - innerWidth")
        if over > 0:
            print(f"{shot.name}: {over} px wider than a window of {width}")
        page.close()

    def address(self, path: str) -> str:
        return self.spent if path == "SPENT" else self.stack.address + path.format(**self.runs)

    def start(self, name: str, problem: str, proposer: str = "builtin", steps: int = STEPS) -> None:
        page = self.people["ada"].new_page()
        page.goto(f"{self.stack.address}/new?problem={problem}")
        page.get_by_label("Steps").fill(str(steps))
        page.get_by_label("Seed").fill("7")
        page.locator(f"input[name=proposer][value={proposer}]").check()
        page.locator("#start-button").click()
        page.wait_for_url("**/s/*/**", timeout=60_000)
        self.runs[name] = int(page.url.split("/s/")[1].split("/")[0])
        page.close()

    def wait_told(self, name: str, count: int) -> None:
        """Until `count` candidates of a search have a verdict."""

        def enough() -> bool:
            answer = self.people["ada"].request.get(f"{self.stack.address}/s/{self.runs[name]}/snapshot").json()
            return sum(order is not None for order in answer["nodes"]["o"]) >= count

        wait_for(enough, 180, f"{count} candidates of {name}")

    def find_best(self) -> None:
        page = self.people["ada"].new_page()
        page.goto(self.address("/s/{run}/"))
        self.runs["best"] = int(page.locator(".fact-best a[data-node]").get_attribute("data-node") or 0)
        page.goto(self.address("/s/{run}/n/{best}/"))
        link = page.get_by_role("link", name="Evaluation").get_attribute("href") or ""
        self.runs["modelled_evaluation"] = int(link.strip("/").split("/")[-1])
        page.close()

    def start_campaign(self) -> None:
        """One whose first search has ended or is on its way."""
        choice = ("--problems", "row_softmax", "rms_norm_bf16", "attention", "--steps", "6", "--detach")
        self.runs["campaign"] = int(self.stack.manage("campaign", "start", *choice).split()[1].rstrip(":"))

    def start_adapt(self) -> None:
        """One whose first task is on its way, or done."""
        choice = ("--tasks", "3", "--steps", "3", "--control-steps", "2", "--seed", "1", "--detach")
        self.runs["adapt"] = int(self.stack.manage("adapt", *choice).split("adapt run ")[1].split(".")[0])

    def add_gpu(self) -> None:
        """Rows of a GPU with a history: this machine may have none."""
        text = "import json; from tests.judge.gpu_rows import history; print(json.dumps(history()))"
        self.runs |= json.loads(self.stack.manage("shell", "--no-imports", "-c", text))
        self.runs["interpreter"] = int(self.stack.manage("shell", "--no-imports", "-c", INTERPRETER))

    def add_rules(self) -> None:
        """Rules in every state."""
        text = "import json; from tests.memory.rule_pictures import gallery; print(json.dumps(gallery()))"
        self.runs |= json.loads(self.stack.manage("shell", "--no-imports", "-c", text))

    def import_recorded(self) -> bool:
        place = Path(os.environ.get("ADAEXPLORE_FIXTURES", "")) / "recorded_searches"
        files = sorted(place.glob("*.json.gz")) if "ADAEXPLORE_FIXTURES" in os.environ else []
        if files:
            self.runs["imported"] = int(
                self.stack.manage("import_search", str(files[0])).split("run ")[1].split(",")[0]
            )
        return bool(files)


def upload(body: str, tail: str = "", until: str = "") -> Callable[[Page, Tour], None]:
    """Upload a module whose forward returns `body`, and wait for the text `until`."""

    def act(page: Page, tour: Tour) -> None:
        text = MODULE.format(body=body, tail=f"{tail}\n# {time.monotonic_ns()}")
        page.goto(tour.stack.address + "/new")
        page.locator("input[type=file]").set_input_files(
            {"name": "mine.py", "mimeType": "text/x-python", "buffer": text.encode()}
        )
        page.get_by_text(until).first.wait_for(timeout=60_000)

    return act


def press(key: str) -> Callable[[Page, Tour], None]:
    return lambda page, _: (page.wait_for_timeout(800), page.keyboard.press(key), page.wait_for_timeout(800))[0]


@dataclass(frozen=True)
class Shot:
    name: str
    path: str = ""
    who: str = "ada"
    act: Callable[[Page, Tour], None] | None = None
    window: bool = False  # the window only, not the whole page


FIRST = [
    Shot("sign-in", "/", "nobody"),
    Shot("link-expired", "SPENT", "nobody"),
    Shot("home-empty", "/"),
    Shot("home-empty-viewer", "/", "vera"),
    Shot("new", "/new"),
    Shot("new-sample", "/new?problem=layer_norm_gelu"),
    Shot("upload-error", act=upload("x +", until="was not taken")),
    Shot("preflight-running", act=upload("x * 2", "time.sleep(4)", until="running")),
    Shot("preflight-ok", act=upload("torch.relu(x * 2)", until="Compulsory bytes")),
    Shot("preflight-refused", act=upload("[1]", until="refused")),
    Shot("lab-empty", "/lab/", "vera"),
    Shot("spend-empty", "/spend/", "vera"),
    Shot("gallery-empty", "/gallery/", "vera"),
    Shot("fleet-empty", "/fleet/", "vera"),
    Shot("failures-empty", "/failures/", "vera"),
    Shot("rules-empty", "/rules/"),
    Shot("adapt-empty", "/adapt/", "vera"),
    Shot("problems-no-match", "/problems/?q=nothing+has+this+name"),
    Shot("not-found", "/s/999/"),
    Shot("no-access", "/problem-upload/", "vera"),
]
RUNNING = [Shot("cockpit-running", "/s/{run}/")]
AFTER = [
    Shot("home", "/"),
    Shot("problems", "/problems/"),
    Shot("home-viewer", "/", "vera"),
    Shot("home-menu", "/", act=lambda page, _: page.locator("details.menu summary").click(), window=True),
    Shot("help", "/", act=press("?"), window=True),
    Shot("problem", "/problems/layer_norm_gelu/"),
    Shot("problem-viewer", "/problems/layer_norm_gelu/", "vera"),
    Shot("cockpit", "/s/{run}/"),
    Shot("cockpit-viewer", "/s/{run}/", "vera"),
    Shot("cockpit-table", "/s/{run}/?tab=table"),
    Shot("cockpit-tree", "/s/{run}/?tab=tree"),
    Shot("cockpit-time", "/s/{run}/?x=time"),
    Shot("cockpit-drawer", "/s/{run}/?n={best}", window=True),
    Shot("cockpit-replay", "/s/{run}/?at=12"),
    Shot("node-overview", "/s/{run}/n/{best}/"),
    Shot("node-root", "/s/{run}/n/0/"),
    Shot("node-source", "/s/{run}/n/{best}/?tab=source"),
    Shot("node-diff", "/s/{run}/n/{best}/?tab=diff"),
    Shot("node-diff-reference", "/s/{run}/n/{best}/?tab=diff&base=reference"),
    Shot("node-exchange", "/s/{run}/n/{best}/?tab=exchange"),
    Shot("node-log", "/s/{run}/n/{best}/?tab=log"),
    Shot("pictures", "/s/{run}/pictures/"),
    Shot("spend", "/spend/"),
    Shot("gallery", "/gallery/"),
    Shot("activity", "/s/{run}/activity/"),
    Shot("failures", "/failures/"),
    Shot("failures-run", "/s/{run}/failures/"),
    Shot("what-if", "/s/{run}/what-if/?policy=greedy"),
    Shot("campaigns", "/campaigns/"),
    Shot("campaign-new", "/campaigns/new"),
    Shot("campaign-new-viewer", "/campaigns/new", "vera"),
    Shot("campaign", "/campaigns/{campaign}/"),
    Shot("import", "/import"),
    Shot("adapts", "/adapt/"),
    Shot("adapt-new", "/adapt/new"),
    Shot("adapt", "/adapt/{adapt}/"),
    Shot("lab", "/lab/"),
    Shot("lab-result", "/lab/1/?workers=16"),
    Shot("manual", "/s/{manual}/"),
    Shot("manual-node", "/s/{manual}/n/1/"),
]
JUDGE = [
    Shot("fleet", "/fleet/"),
    Shot("device", "/devices/{gpu}/"),
    Shot("device-viewer", "/devices/{gpu}/", "vera"),
    Shot("device-interpreter", "/devices/{interpreter}/"),
    Shot("problem-gpu", "/problems/row-softmax/"),
    Shot("problem-gpu-viewer", "/problems/row-softmax/", "vera"),
    Shot("problem-degenerate", "/problems/sum-max-mean/"),
    Shot("evaluation", "/evaluations/{best_evaluation}/"),
    Shot("evaluation-modelled", "/evaluations/{modelled_evaluation}/"),
    Shot("evaluation-wrong", "/evaluations/{wrong_evaluation}/"),
    Shot("evaluation-degenerate", "/evaluations/{flagged_evaluation}/"),
    Shot("self-tests", "/judge/"),
]
RULES = [
    Shot("rules", "/rules/"),
    Shot("rules-viewer", "/rules/", "vera"),
    Shot("rules-reject", "/rules/", act=press("r")),
    Shot("rules-edit", "/rules/", act=press("e")),
    Shot("rules-library", "/rules/?tab=library"),
    Shot("rules-closed", "/rules/?tab=closed"),
    Shot("rules-bulk", "/rules/bulk?act=approve"),
    Shot("rule", "/rules/{rule}/"),
    Shot("rule-new", "/rules/new"),
]
IMPORTED = [
    Shot("report", "/report/"),
    Shot("imported", "/s/{imported}/"),
    Shot("imported-pictures", "/s/{imported}/pictures/"),
    Shot("imported-tree", "/s/{imported}/?tab=tree"),
    Shot("imported-drawer", "/s/{imported}/?n=40", window=True),
    Shot("imported-node", "/s/{imported}/n/40/"),
]


def tour(folder: Path, only: list[str]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="adaexplore-pictures-") as data, launched() as browser:
        stack = Stack(Path(data) / "data").start()
        try:
            walk(Tour(stack, browser, folder, only))
        finally:
            stack.stop()


def walk(tour: Tour) -> None:
    tour.sign_in()
    tour.take(FIRST)
    tour.start("run", "layer_norm_gelu")
    tour.wait_told("run", 4)
    tour.take(RUNNING)
    tour.start("manual", "swiglu", "manual", 3)
    tour.wait_told("run", STEPS + 1)  # with the root
    tour.find_best()
    tour.start_campaign()
    tour.start_adapt()
    tour.take(AFTER)
    tour.add_gpu()
    tour.take(JUDGE)
    tour.add_rules()
    tour.take(RULES)
    if tour.import_recorded():
        tour.take(IMPORTED)


if __name__ == "__main__":
    if len(sys.argv) < 2:
        raise SystemExit(__doc__)
    tour(Path(sys.argv[1]), sys.argv[2:])
