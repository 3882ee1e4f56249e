"""A search without a kernel that beat PyTorch, as every page, file and API reads it: no winner, and why."""

from __future__ import annotations

import pytest
from django.utils import timezone

from adaexplore_site.core.models import Webhook, WebhookDelivery
from judge.values import Basis
from search.engine.completion import best_event, run_end
from search.interchange.exports import run_document
from search.kernels.winners import Wanted, winners
from search.ledger.books import progress_of
from search.management.commands import run_search
from search.records.facts import standing_of
from search.records.log import event_write
from search.records.models import Node, Run
from search.reports.build import report_of
from tests.judge.gpu_rows import report
from tests.pages import campaign, client_of
from tests.search.kernel_rows import gpu_run, kernel, key
from tests.search.live_rows import grow

pytestmark = pytest.mark.django_db
COMPILED = {"value": 0.8, "low": 0.7, "high": 0.9, "n": 60, "basis": "measured"}
BESIDE = {"over_fastest": 0.8, "fastest": "compile", "fastest_interval": [0.7, 0.9, 60]}
SAYS = "0.80× [0.70–0.90] n=60 over the fastest baseline, torch.compile"
NOTHING = "Nothing faster than PyTorch was found"


def ended(speedup: float | None, **evaluation: object) -> Run:
    """A finished search of two steps with one wrong kernel and, with a speedup, one audited one."""
    run = gpu_run("gelu", steps=2, title="Without a winner")
    run.problem.admission[run.device.name] = report()
    run.problem.save()
    grow(run, speedup=None)
    if speedup is not None:
        node = kernel(run, speedup, **evaluation)
        event_write(run=run, event=best_event(node, node.evaluation))
    run.refresh_from_db()
    run_end(run=run, state=Run.State.FINISHED, reason="", now=timezone.now())
    return run


def behind_compile() -> Run:
    return ended(2.0, report={"speedup_compile": COMPILED}, **BESIDE)


def behind_eager() -> Run:
    return ended(0.8)


PAGES = ("/", "/s/{run}/", "/problems/", "/problems/{slug}/", "/kernels/", "/report/?runs={run}", "/spend/",
         "/notifications/", "/campaigns/{campaign}/", "/compare?k={run}.2&k={run}.1", "/s/{run}/n/2/",
         "/s/{run}/pictures/")  # fmt: skip
WINNER = (
    "Best so far: ",
    "Download best",
    "best so far</span>",
    "is the new best",
    ">fastest<",
    "New best",
)


@pytest.mark.parametrize("make", [behind_compile, behind_eager])
def test_no_page_names_a_winner_and_each_shows_the_closest_with_its_evidence(make):
    run = make()
    viewer, batch = client_of("vera"), campaign(run)
    for path in PAGES:
        address = path.format(run=run.pk, slug=run.problem.slug, campaign=batch)
        answer = viewer.get(address, follow=True)
        text = answer.content.decode()
        assert answer.status_code == 200, address
        assert [word for word in WINNER if word in text] == [], address
        if make is behind_compile and "2.00×" in text:
            assert SAYS in text, address
    for path in ("/", "/s/{run}/", "/campaigns/{campaign}/"):
        assert NOTHING in viewer.get(path.format(run=run.pk, campaign=batch)).content.decode(), path
    assert "not faster than PyTorch" in viewer.get("/problems/").content.decode()
    problem = viewer.get(f"/problems/{run.problem.slug}/").content.decode()
    assert "Nothing faster than PyTorch was found on this device" in problem and "Fastest kernels" not in problem
    assert "Closest kernels" in problem and "fastest kernel<" not in problem


@pytest.mark.parametrize("make", [behind_compile, behind_eager])
def test_no_file_command_webhook_or_answer_of_the_api_has_a_winner(make):
    Webhook.objects.create(address="https://example.org/", salt="x", events=["search.best", "search.finished"])
    run = make()
    viewer = client_of("vera")
    for answer in (viewer.get("/api/v1/searches").json()["items"][0], viewer.get(f"/api/v1/searches/{run.pk}").json()):
        assert (answer["best"], answer["closest_node"]) == (None, 2)
        assert answer["closest"]["over_fastest"] == BESIDE["over_fastest"] or make is behind_eager
    assert [event for (event,) in WebhookDelivery.objects.values_list("event")] == ["search.finished"]
    document = run_document(run, toolchain="", wall_s=1.0, command="")
    assert (document["best"], document["closest"]["number"]) == (None, 2)
    sentence = run_search._sentence(document, run.device)
    assert f"{NOTHING}. Closest: node 2" in sentence and (SAYS in sentence) is (make is behind_compile)
    [row] = viewer.get("/kernels/?as=json").json()
    assert (row["decided"], row["beats_pytorch"]) == (False, False)
    assert (progress_of(run).best_speedup, progress_of(run).best_order) == (None, 2), "no target is reached by it"


def test_a_search_without_any_pass_says_so_and_offers_nothing():
    run = ended(None)
    viewer = client_of("vera")
    for path in ("/", f"/s/{run.pk}/", f"/problems/{run.problem.slug}/", "/kernels/", f"/report/?runs={run.pk}"):
        text = viewer.get(path).content.decode()
        assert [word for word in (*WINNER, "Download closest", "Closest to PyTorch") if word in text] == [], path
    assert "none has passed" in viewer.get(f"/s/{run.pk}/").content.decode()
    answer = viewer.get(f"/api/v1/searches/{run.pk}").json()
    assert (answer["best_node"], answer["closest_node"]) == (None, None)
    document = run_document(run, toolchain="", wall_s=1.0, command="")
    assert "No correct kernel was found" in run_search._sentence(document, run.device)


def test_one_that_beat_pytorch_leads_before_a_faster_one_that_torch_compile_beat():
    run = gpu_run("gelu", steps=9)
    kernel(run, 2.0, report={"speedup_compile": COMPILED}, **BESIDE)
    won = kernel(run, 1.4, report={"speedup_compile": {**COMPILED, "value": 1.1, "low": 1.05}})
    assert standing_of(run.pk).best == won.number
    [row] = winners(Wanted(Basis.MEASURED)).rows
    assert (row.leader.node.number, row.beats) == (won.number, True)
    [line] = report_of([run], title="t").blocks[0].lines
    assert (line.number, line.won) == (won.number, True)
    assert key(Node.objects.get(pk=row.leader.node.pk)) == key(won)
