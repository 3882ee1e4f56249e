"""Every page of the site in every state worth a look: one list for the sweep in a browser and for pictures.

`tests/site/test_page_list.py` fails while a page of the URL conf is missing here.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from playwright.sync_api import Page

Act = Callable[[Page], object]
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


@dataclass(frozen=True)
class Sight:
    """One page in one state. `path` holds names of rows in braces; `who` is ada (admin), vera (viewer) or nobody."""

    name: str
    path: str
    who: str = "ada"
    act: Act | None = None  # what is done on the page before it is looked at
    window: bool = False  # what matters fits the window: a picture shows no more
    status: int = 200
    answer: int = 200  # status of what `act` sends
    once: bool = False  # what `act` leads to is shown one time: the page is resized, never opened again


# Live data has come, the panel beside it too, and nothing is on its way.
SETTLED = """() => {
  const live = document.getElementById("live");
  return (!live || live.dataset.state !== "still") && !document.querySelector("[aria-busy=true]");
}"""


def settle(page: Page) -> None:
    """Wait until a page shows what it has to show."""
    page.wait_for_load_state("load")
    page.wait_for_function(SETTLED)


def press(*keys: str) -> Act:
    """Keys, once the page's scripts listen."""

    def act(page: Page) -> None:
        page.wait_for_load_state("networkidle")
        for key in keys:
            page.keyboard.press(key)
        page.wait_for_timeout(100)

    return act


def click(selector: str) -> Act:
    return lambda page: page.locator(selector).first.click()


def api_operation(page: Page) -> None:
    """An operation of the API's reference, asked."""
    for selector in ("#operations-tag-searches button", "#operations-searches-searches button", ".try-out__btn"):
        page.locator(selector).first.click()
    page.locator(".btn.execute").click()
    page.locator(".live-responses-table").wait_for()


def submit(selector: str, **fields: str) -> Act:
    """Send a form as a browser without checks of its own would."""

    def act(page: Page) -> None:
        page.wait_for_load_state("networkidle")
        form = page.locator(selector).first
        form.evaluate(
            """(form, fields) => {
              form.noValidate = true;
              for (const [name, value] of Object.entries(fields)) {
                const made = Object.assign(document.createElement('input'), { name, type: 'hidden' });
                (form.elements[name] || form.appendChild(made)).value = value;
              }
            }""",
            fields,
        )
        with page.expect_response(lambda answer: answer.request.method == "POST"):
            form.evaluate("(form) => form.requestSubmit()")
        page.wait_for_timeout(150)  # the new page, or the swap, has begun
        page.wait_for_load_state("load")

    return act


def upload(body: str, tail: str = "", until: str = "") -> Act:
    """Upload a module whose forward returns `body`, and wait for the text `until`."""

    def act(page: Page) -> None:
        text = MODULE.format(body=body, tail=f"{tail}\n# {time.monotonic_ns()}")
        page.locator("input[type=file]").set_input_files(
            {"name": "mine.py", "mimeType": "text/x-python", "buffer": text.encode()}
        )
        page.get_by_text(until).first.wait_for(timeout=60_000)

    return act


def both(*acts: Act) -> Act:
    """One after the other."""

    def act(page: Page) -> None:
        for one in acts:
            one(page)

    return act


EMPTY = [
    Sight("sign-in", "/", "nobody"),
    Sight("sign-in-refused", "/sign-in/", "nobody", submit("main form", username="ada", password="no")),
    Sight("link-expired", "/sign-in/x/y/", "nobody", status=410),
    Sight("home-empty", "/"),
    Sight("home-empty-viewer", "/", "vera"),
    Sight("problems-empty", "/problems/"),
    Sight("problems-no-match", "/problems/?q=nothing+has+this+name"),
    Sight("new-empty", "/new"),
    Sight("failures-empty", "/failures/", "vera"),
    Sight("rules-empty", "/rules/"),
    Sight("rules-library-empty", "/rules/?tab=library", "vera"),
    Sight("campaigns-empty", "/campaigns/"),
    Sight("adapts-empty", "/adapt/", "vera"),
    Sight("report-empty", "/report/"),
    Sight("lab-empty", "/lab/", "vera"),
    Sight("kernels-empty", "/kernels/"),
    Sight("compare-empty", "/compare"),
    Sight("activity-none", "/activity/?object=rule"),
    Sight("find-empty", "/find/?q=nothing+has+this+name"),
    Sight("fleet-empty", "/fleet/"),
    Sight("spend-empty", "/spend/", "vera"),
    Sight("notices-empty", "/notifications/", "vera"),
    Sight("tokens-empty", "/settings/tokens/", "vera"),
    Sight("webhooks-empty", "/settings/webhooks/", "vera"),
    Sight("gallery", "/gallery/"),
    Sight("gallery-viewer", "/gallery/", "vera"),
    Sight("self-tests-empty", "/judge/"),
    Sight("not-found", "/s/999/", status=404),
    Sight("no-access", "/problem-upload/", "vera", status=403),
]
# Searches at the start and on the way.
YOUNG = [
    Sight("cockpit-empty", "/s/{waiting}/"),
    Sight("cockpit-empty-viewer", "/s/{waiting}/", "vera"),
    Sight("activity-empty", "/s/{waiting}/activity/"),
    Sight("bulk-empty", "/s/{waiting}/bulk/"),
    Sight("failures-run-empty", "/s/{waiting}/failures/"),
]
FULL = [
    Sight("home", "/"),
    Sight("home-viewer", "/", "vera"),
    Sight("home-menu", "/", act=click("details.menu summary"), window=True),
    Sight("home-views", "/", act=click(".views-menu summary"), window=True),
    Sight("home-no-match", "/?q=nothing+has+this+name"),
    Sight("help", "/", act=press("?"), window=True),
    Sight("palette", "/s/{run}/", act=press("Control+k"), window=True),
    Sight("find", "/find/?q=norm"),
    Sight("activity-all", "/activity/"),
    Sight("activity-all-viewer", "/activity/?verb=run", "vera"),
    Sight("settings", "/settings/"),
    Sight("settings-members", "/settings/members/"),
    Sight("settings-members-viewer", "/settings/members/", "vera"),
    Sight("settings-tokens", "/settings/tokens/"),
    Sight("settings-token-issued", "/settings/tokens/", act=submit("form[action$=issue]", name="nightly"), window=True),
    Sight("settings-webhooks", "/settings/webhooks/"),
    Sight(
        "settings-webhook-refused",
        "/settings/webhooks/",
        act=submit("form[action$=add]", address="http://127.0.0.1"),
        answer=409,
    ),
    Sight("api-docs", "/api/v1/docs", act=click("#operations-tag-searches button")),
    Sight("api-operation", "/api/v1/docs", act=api_operation),
    Sight("settings-providers", "/settings/providers/"),
    Sight("settings-installation", "/settings/installation/"),
    Sight("kernels", "/kernels/"),
    Sight("kernels-modelled", "/kernels/?basis=modelled"),
    Sight("kernels-retired", "/kernels/?basis=modelled&marked=retired"),
    Sight("kernels-doubted", "/kernels/?basis=modelled&marked=doubt"),
    Sight("compare", "/compare?k={run}.{best}&k={run}.{other}"),
    Sight("compare-nonsense", "/compare?k={run}.{best}&k=banana", status=422),
    Sight("new", "/new"),
    Sight("new-problem", "/new?problem={problem}"),
    Sight("new-refused", "/new?problem={problem}", act=submit("form:has(#start-button)", steps="x"), answer=422),
    Sight("problems", "/problems/"),
    Sight("problem", "/problems/{problem}/"),
    Sight("problem-viewer", "/problems/{problem}/", "vera"),
    Sight("cockpit", "/s/{run}/"),
    Sight("cockpit-viewer", "/s/{run}/", "vera"),
    Sight("cockpit-nothing-faster", "/s/{slow}/", "vera"),
    Sight("cockpit-nothing-faster-table", "/s/{slow}/?tab=table"),
    Sight("cockpit-table", "/s/{run}/?tab=table"),
    Sight("cockpit-time", "/s/{run}/?x=time"),
    Sight("cockpit-drawer", "/s/{run}/?n={best}", window=True),
    Sight("cockpit-replay", "/s/{run}/?at=4"),
    Sight("cockpit-acts", "/s/{run}/?n={best}", act=click('[data-do="acts"]'), window=True),
    Sight("node-overview", "/s/{run}/n/{best}/"),
    Sight("node-viewer", "/s/{run}/n/{best}/", "vera"),
    Sight("node-root", "/s/{run}/n/0/"),
    Sight("node-doubted", "/s/{run}/n/1/"),
    Sight("node-source", "/s/{run}/n/{best}/?tab=source"),
    Sight("node-diff", "/s/{run}/n/{best}/?tab=diff"),
    Sight("node-diff-reference", "/s/{run}/n/{best}/?tab=diff&base=reference"),
    Sight("node-diff-unified", "/s/{run}/n/{best}/?tab=diff&base=reference&view=unified"),
    Sight("node-exchange", "/s/{run}/n/{best}/?tab=exchange"),
    Sight("node-log", "/s/{run}/n/{best}/?tab=log"),
    Sight("pictures", "/s/{run}/pictures/"),
    Sight("pictures-time", "/s/{run}/pictures/?x=time"),
    Sight("spend", "/spend/"),
    Sight("spend-viewer", "/spend/", "vera"),
    Sight("spend-refused", "/spend/", act=submit("form[action$=budget]", alert_percent="0"), answer=422),
    Sight("notices", "/notifications/"),
    Sight("spend-kind", "/spend/?by=kind"),
    Sight("activity", "/s/{run}/activity/"),
    Sight("failures", "/failures/"),
    Sight("failures-viewer", "/failures/", "vera"),
    Sight("failures-run", "/s/{run}/failures/"),
    Sight("bulk", "/s/{run}/bulk/?state=slower&state=correct"),
    Sight("bulk-viewer", "/s/{run}/bulk/?state=wrong", "vera"),
    Sight("bulk-refused", "/s/{run}/bulk/?under=fast", status=422),
    Sight("what-if", "/s/{run}/what-if/?policy=greedy"),
    Sight("what-if-refused", "/s/{run}/what-if/?policy=nonsense", status=422),
    Sight("campaigns", "/campaigns/"),
    Sight("campaign-new", "/campaigns/new"),
    Sight("campaign-new-viewer", "/campaigns/new", "vera"),
    Sight("campaign", "/campaigns/{campaign}/"),
    Sight("import", "/import"),
    Sight("adapts", "/adapt/"),
    Sight("adapt-new", "/adapt/new"),
    Sight("adapt", "/adapt/{adapt}/"),
    Sight("lab", "/lab/"),
    Sight("lab-result", "/lab/{lab}/"),
    Sight("manual", "/s/{manual}/"),
    Sight("manual-node", "/s/{manual}/n/1/"),
    Sight("report", "/report/"),
]
JUDGED = [
    Sight("fleet", "/fleet/"),
    Sight("cockpit-elsewhere", "/s/{elsewhere}/"),
    Sight("cockpit-elsewhere-viewer", "/s/{elsewhere}/", "vera"),
    Sight("device-elsewhere", "/devices/{enrolled}/"),
    Sight("fleet-one", "/fleet/?worker=interpreter"),
    Sight("device", "/devices/{gpu}/"),
    Sight("device-viewer", "/devices/{gpu}/", "vera"),
    Sight("device-interpreter", "/devices/{interpreter}/"),
    Sight("problem-gpu", "/problems/row-softmax/"),
    Sight("problem-gpu-viewer", "/problems/row-softmax/", "vera"),
    Sight("problem-degenerate", "/problems/sum-max-mean/"),
    Sight("problem-refused", "/problems/{refused}/"),
    Sight("problem-running", "/problems/{checking}/"),
    Sight("problem-stopped", "/problems/{stopped}/"),
    Sight("problem-quarantined", "/problems/{quarantined}/"),
    Sight("problem-old-version", "/problems/{old_version}/"),
    Sight("problem-diff", "/problems/{new_version}/diff?with={old_version}"),
    Sight("problems-archived", "/problems/?shelf=archived"),
    Sight("problem-archived", "/problems/{shelved}/"),
    Sight("problem-deleted", "/problems/deleted/"),
    Sight("problem-unseal", "/problems/row-softmax/", act=submit("form[action$=unseal]")),
    Sight(
        "problem-opened",
        "/problems/{to_open}/",
        act=both(submit("form[action$=unseal]"), submit("form.actions")),
        once=True,
    ),
    Sight("problem-delete", "/problems/{shelved}/", act=submit("form[action$=delete]")),
    Sight("problem-delete-used", "/problems/{problem}/", act=submit("form[action$=delete]")),
    Sight("evaluation", "/evaluations/{best_evaluation}/"),
    Sight("evaluation-modelled", "/evaluations/{modelled_evaluation}/"),
    Sight("evaluation-wrong", "/evaluations/{wrong_evaluation}/"),
    Sight("evaluation-degenerate", "/evaluations/{flagged_evaluation}/"),
    Sight("self-tests", "/judge/"),
    Sight("self-test", "/judge/interpreter/"),
]
REVIEWED = [
    Sight("rules", "/rules/"),
    Sight("rules-viewer", "/rules/", "vera"),
    Sight("rules-reject", "/rules/", act=press("r")),
    Sight("rules-edit", "/rules/", act=press("e")),
    Sight("rules-library", "/rules/?tab=library"),
    Sight("rules-closed", "/rules/?tab=closed"),
    Sight("rules-bulk", "/rules/bulk?act=approve"),
    Sight("rule", "/rules/{rule}/"),
    Sight("rule-viewer", "/rules/{rule}/", "vera"),
    Sight("rule-new", "/rules/new"),
    Sight("cluster", "/failures/{cluster}/"),
    Sight("cluster-viewer", "/failures/{cluster}/", "vera"),
]
IMPORTED = [
    Sight("imported", "/s/{imported}/"),
    Sight("imported-table", "/s/{imported}/?tab=table"),
    Sight("imported-drawer", "/s/{imported}/?n={imported_node}", window=True),
    Sight("imported-node", "/s/{imported}/n/{imported_node}/"),
    Sight("imported-remove", "/s/{imported}/remove"),
]
# What needs workers and the sandbox: pictures only. The states of a preflight are in the list as rows, too.
WORKED = [
    Sight("upload-error", "/new", act=upload("x +", until="was not uploaded")),
    Sight("preflight-running", "/new", act=upload("x * 2", "time.sleep(4)", until="running")),
    Sight("preflight-ok", "/new", act=upload("torch.relu(x * 2)", until="Compulsory bytes")),
    Sight("preflight-refused", "/new", act=upload("[1]", until="refused")),
]
# Routes that are no pages, and why. A route that answers a link with a page of its own does not belong here.
NO_PAGES = {
    "javascript-catalog": "script",
    "sign-out": "form",
    "problem-upload": "form; its errors are pictured by upload-error",
    "problem-version": "form",
    "problem-archive": "form",
    "problem-delete": "form; its question is pictured by problem-delete",
    "problem-unseal": "form; its question is pictured by problem-unseal",
    "problem-preflight": "part of the page of a problem",
    "evaluation-samples-csv": "file",
    "evaluation-samples-json": "file",
    "evaluation-sanitize": "form",
    "evaluation-sanitize-stop": "form",
    "self-test-start": "form",
    "self-test-stop": "form; a page asks",
    "rule-cards": "part of the page of the rules",
    "rule-undo": "form",
    "rule-import": "form",
    "rule-export": "file",
    "rule-act": "form",
    "rule-hold": "form",
    "campaign-pause": "form",
    "campaign-resume": "form",
    "campaign-stop": "form",
    "adapt-file": "file",
    "adapt-pause": "form",
    "adapt-resume": "form",
    "adapt-stop": "form",
    "adapt-transfer": "form",
    "run-folder-download": "file",
    "run-picture-file": "file",
    "device-list-old": "leads to the fleet",
    "run-packed-download": "file",
    "solution-download": "file",
    "kernel-download": "file",
    "proof-download": "file",
    "run-pause": "form",
    "run-resume": "form",
    "run-archive": "form",
    "activity-file": "file",
    "action-undo": "form",
    "member-invite": "form",
    "member-roles": "form",
    "member-link": "form",
    "member-access": "form",
    "find-names": "data",
    "token-issue": "form",
    "webhook-add": "form",
    "webhook-switch": "form",
    "webhook-test": "form",
    "webhook-remove": "form",
    "token-revoke": "form",
    "run-stop": "form",
    "run-steer": "form",
    "node-branch": "form",
    "node-reply": "form",
    "kernel-verify": "form",
    "kernel-dispute": "form",
    "kernel-race": "form",
    "kernel-mark": "form",
    "kernel-recheck-cancel": "form",
    "failure-act": "form",
    "run-counterfactual": "data",
    "spend-budget": "form",
    "spend-price": "form",
    "spend-price-withdraw": "form",
    "node-revoke": "form; a page asks",
    "node-stop": "form; a page asks",
    "problem-preflight-stop": "form",
    "problem-state": "form",
    "view-save": "form",
    "view-rename": "form",
    "view-delete": "form",
    "notice-count": "data",
    "notice-seen": "form",
    "device-state": "form",
    "device-check": "form",
    "run-snapshot": "data",
    "run-events": "data",
    "run-budget": "data",
    "run-replay": "data",
}
EVERY = [*EMPTY, *YOUNG, *FULL, *JUDGED, *REVIEWED, *IMPORTED, *WORKED]
