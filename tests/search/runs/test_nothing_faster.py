"""What is called the best beat PyTorch; where nothing did, every reader says so and names the closest kernel."""

from __future__ import annotations

import dataclasses
import json
import zipfile
from datetime import timedelta
from io import BytesIO
from typing import Any

import pytest

from adaexplore_site.core.models import Webhook, WebhookDelivery
from adaexplore_site.notifications.services import best_rows
from adaexplore_site.palette.find import found
from judge.evaluations.beside import won as is_won
from judge.values import Basis, Outcome, SpeedCall, Speedup
from search.algorithm.ranking import Standing, standing
from search.interchange.exports import kernel_file, proof_zip, run_document
from search.kernels.document import winners_json
from search.kernels.winners import Wanted, winners
from search.live.chart import chart_of
from search.live.columns import node_columns
from search.live.frames import feed_items
from search.live.panels import evidence_of
from search.management.commands import run_search
from search.pictures.book import Book
from search.pictures.views import picture_of
from search.rechecks.marking import QUARANTINE
from search.records.facts import has_won, standing_of, standings_logged, won_of
from search.records.models import Node, Run
from search.records.queries import best_node, run_summary, run_tree
from search.replay.check import replay_run
from search.reports.build import report_of
from tests.pages import client_of
from tests.search.fakes import FakeBench, passed
from tests.search.kernel_rows import gpu_run, kernel
from tests.search.makers import Worker, make_run
from tests.search.steered import kernel_mark

HOUR = timedelta(hours=1)
COMPILE = {"value": 1.3, "low": 1.2, "high": 1.4, "n": 60, "basis": "measured"}


def over(value: float | None, low: float | None = None, basis: str = "measured") -> dict[str, Any]:
    return {"value": value, "low": low, "basis": basis}


@pytest.mark.parametrize(
    ("eager", "others", "won"),
    [
        (over(1.2, 1.1), [], True),
        (over(1.2, 0.98), [], False),  # the interval reaches eager: a tie
        (over(1.2, 0.5, "modelled"), [None], True),  # no interval decides
        (over(1.2, None, "reported"), [], True),
        (over(0.9, 0.8), [], False),
        (over(1.0, 1.0), [], False),
        (over(3.0, 2.9), [over(0.8, 0.7)], False),  # faster than eager, slower than torch.compile
        (over(3.0, 2.9), [over(1.3, 1.2), None, over(1.1, 1.05)], True),
        (over(None), [], False),
    ],
)
def test_a_kernel_beats_pytorch_when_it_beats_every_baseline_it_was_timed_beside(eager, others, won):
    assert is_won(eager["value"], eager["low"], eager["basis"], *others) is won


def test_the_best_is_the_highest_ranked_winner_and_only_without_one_somebody_is_the_closest():
    kernels = [(1.3, 1, False), (1.2, 2, True), (1.25, 3, True), (0.5, 4, False)]
    assert standing(kernels) == Standing(best=3)
    assert standing((speedup, number, False) for speedup, number, _ in kernels) == Standing(closest=1)
    assert standing([]) == Standing() and Standing().leader is None


def slow_run(**given: Any) -> Run:
    """A finished search on the model: 0.5, 0.8, 0.7, all audited."""
    bench = FakeBench({0: passed(0.5), 1: passed(0.8), 2: passed(0.7)})
    return Worker(bench=bench).run(make_run(steps=3, **given))


@pytest.mark.django_db
def test_every_reader_says_that_nothing_was_faster_and_names_the_same_closest_kernel():
    run = slow_run()
    summary, tree, columns = run_summary(run), run_tree(run), node_columns(run)
    document = run_document(run, toolchain="", wall_s=1.0, command="")
    evidence = evidence_of(run, run.ended_at)
    assert {
        "rows": standing_of(run.pk),
        "log": standings_logged([run.pk])[0][run.pk],
        "tree": tree.standing,
        "summary": Standing(summary.best, summary.closest),
        "evidence": evidence.standing,
        "document": Standing(document["best"], document["closest"]["number"]),
    } == dict.fromkeys(("rows", "log", "tree", "summary", "evidence", "document"), Standing(closest=2))
    assert best_node(run.pk).number == 2  # whom the next kernel has to beat
    assert columns["a"] == [0, 1, 1, 1] and chart_of(columns).records == ()
    assert "best" not in {dot.style for dot in chart_of(columns).dots}
    assert {event.payload["won"] for event in run.events.filter(kind="node.best")} == {False}
    assert "best" not in {item.style for item in feed_items(run.events.all())}
    assert run.events.get(kind="run.ended").payload["won"] is None
    assert not best_rows(run.created_at - HOUR).exists()
    assert replay_run(run).first is None


@pytest.mark.django_db
def test_pages_offer_no_winner_and_say_why():
    run = slow_run()
    viewer = client_of("vera")
    cockpit, listed = (viewer.get(path).content.decode() for path in (f"/s/{run.pk}/", "/"))
    for text in (cockpit, listed):
        assert "Nothing faster than PyTorch was found" in text
    assert "Download closest" in cockpit and "Download best" not in cockpit
    assert "best so far</span>" not in cockpit and "closest so far" in cockpit
    assert "the closest kernel is node 2" in cockpit and "closest: " in listed
    node = viewer.get(f"/s/{run.pk}/n/2/").content.decode()
    assert "closest so far: nothing beat PyTorch" in node and "best so far" not in node
    other = viewer.get(f"/s/{run.pk}/n/1/?tab=diff&base=best").content.decode()
    assert "closest to PyTorch is" in other and "closest to PyTorch, node 2" in other
    kernels = viewer.get("/kernels/?basis=modelled").content.decode()
    assert "not faster than PyTorch" in kernels and ">fastest<" not in kernels
    assert "0 decided, 0 tied, 1 with nothing faster than PyTorch" in kernels
    says = [picture_of(Book(run), name, "").says for name in ("best-so-far", "lineage")]
    assert "the closest is node 2" in says[0] and "the line of the closest kernel" in says[1]
    assert "not faster than PyTorch" in viewer.get(f"/report/?runs={run.pk}").content.decode()
    assert next(item.label for item in found("relu") if item.group == "Kernels").startswith("Closest to PyTorch of")


@pytest.mark.django_db
def test_the_api_and_the_webhooks_have_no_best():
    Webhook.objects.create(address="https://example.org/", salt="x", events=["search.best", "search.finished"])
    run = slow_run()
    viewer = client_of("vera")
    (listed, *_) = viewer.get("/api/v1/searches").json()["items"]
    one = viewer.get(f"/api/v1/searches/{run.pk}").json()
    for answer in (listed, one):
        assert (answer["best_node"], answer["best"], answer["closest_node"]) == (None, None, 2)
        assert answer["closest"]["value"] == 0.8
    (told,) = WebhookDelivery.objects.values_list("event", "body")
    assert told[0] == "search.finished" and told[1]["best_node"] is None


@pytest.mark.django_db
def test_downloads_say_that_the_kernel_is_not_faster():
    run = slow_run()
    node = Node.objects.select_related("run__problem", "evaluation__device", "parent").get(run=run, number=2)
    assert b"not faster than PyTorch" in kernel_file(node)[1]
    archive = zipfile.ZipFile(BytesIO(proof_zip(node)[1]))
    assert "not faster than PyTorch" in json.loads(archive.read("verdict.json"))["headline"]
    assert "not faster than PyTorch" in archive.read("README.txt").decode()


@pytest.mark.django_db
def test_a_winner_is_called_the_best_by_every_reader_again():
    run = Worker(bench=FakeBench({0: passed(0.5), 1: passed(1.8)})).run(make_run(steps=2))
    viewer = client_of("vera")
    assert standing_of(run.pk) == standings_logged([run.pk])[0][run.pk] == Standing(best=2)
    assert node_columns(run)["a"] == [0, 1, 2] and chart_of(node_columns(run)).records == (2,)
    cockpit, listed = (viewer.get(path).content.decode() for path in (f"/s/{run.pk}/", "/"))
    assert "Download best" in cockpit and "best so far" in cockpit
    for text in (cockpit, listed, viewer.get("/kernels/?basis=modelled").content.decode()):
        assert "faster than PyTorch" not in text
    assert [event.payload["won"] for event in run.events.filter(kind="node.best").order_by("seq")] == [False, True]


@pytest.mark.django_db
def test_a_kernel_that_torch_compile_beats_is_no_best_wherever_it_is_read():
    slower = {**COMPILE, "value": 0.8, "low": 0.7, "high": 0.9}
    run = gpu_run("gelu", steps=9)
    one = kernel(run, 2.0, report={"speedup_compile": slower})
    other = kernel(run, 1.5, report={"speedup_compile": COMPILE, "speedup_autotune": slower})
    assert [has_won(node.evaluation) for node in (one, other)] == [False, False]
    assert standing_of(run.pk) == Standing(closest=one.number)
    won = kernel(run, 1.4, report={"speedup_compile": COMPILE, "speedup_autotune": COMPILE})
    assert has_won(won.evaluation) and won_of([node.evaluation_id for node in (one, other, won)]) == {won.evaluation_id}
    assert standing_of(run.pk) == run_tree(run).standing == Standing(best=won.number)
    assert node_columns(run)["a"] == [0, 1, 1, 2]


@pytest.mark.django_db
def test_where_the_interval_reaches_eager_nobody_has_won():
    run = gpu_run("gelu", steps=9)
    close = kernel(run, 1.05, spread=0.1)
    (row,) = winners(Wanted(Basis.MEASURED)).rows
    assert (row.beats, row.decided) == (False, False)
    (entry,) = winners_json([row])
    assert (entry["beats_pytorch"], entry["decided"]) == (False, False)
    (line,) = report_of([run], title="t").blocks[0].lines
    assert not line.won and line.number == close.number


@pytest.mark.django_db
def test_a_faster_kernel_that_nobody_audited_is_counted_beside_the_closest():
    run = gpu_run("gelu", steps=9)
    kernel(run, 0.9)
    kernel(run, 1.1, audit="")
    evidence = evidence_of(run, run.created_at)
    assert (evidence.standing, evidence.unproven) == (Standing(closest=1), 1)
    assert "1 faster kernel is not audited" in client_of("vera").get(f"/s/{run.pk}/").content.decode()


def measured(speedup: float) -> Outcome:
    plain = passed(speedup)
    timings = tuple(dataclasses.replace(one, basis=Basis.MEASURED) for one in plain.timings)
    figure = Speedup(speedup, speedup * 0.99, speedup * 1.01, 60, Basis.MEASURED, call=SpeedCall.NONE)
    return dataclasses.replace(plain, timings=timings, speedup=figure)


@pytest.mark.django_db
def test_a_kernel_races_a_winner_and_not_one_that_beat_nothing():
    """A kernel slightly faster than PyTorch would tie with one slightly slower, and stay without an audit."""
    bench = FakeBench({0: measured(0.99), 1: measured(1.03), 2: measured(1.04)})
    run = Worker(bench=bench).run(make_run(steps=3))
    sources = dict(run.nodes.values_list("number", "source"))
    assert [(job.beat, job.incumbent) for job in bench.jobs] == [(None, None), (0.99, None), (1.03, sources[2])]


@pytest.mark.django_db
def test_a_doubted_winner_leaves_the_closest():
    run = Worker(bench=FakeBench({0: passed(0.5), 1: passed(1.8)})).run(make_run(steps=2))
    kernel_mark(node=run.nodes.get(number=2), verb=QUARANTINE, user=None)
    assert standing_of(run.pk) == standings_logged([run.pk])[0][run.pk] == Standing(closest=1)


@pytest.mark.django_db
def test_old_events_without_the_word_are_read_as_before():
    run = Worker(bench=FakeBench({0: passed(1.8)})).run(make_run(steps=1))
    event = run.events.get(kind="node.best")
    event.payload.pop("won")
    event.save()
    assert best_rows(run.created_at - HOUR).get() == event
    assert standings_logged([run.pk])[0][run.pk] == Standing(best=1)
    assert "is the new best" in {item.text for item in feed_items(run.events.all())}


@pytest.mark.django_db
def test_the_command_writes_the_closest_kernel_under_that_name(tmp_path):
    run = slow_run()
    document = run_document(run, toolchain="", wall_s=1.0, command="")
    run_search._write(tmp_path, document, run)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["closest.py", "result.json"]
    said = run_search._sentence(document, run.device)
    assert "Nothing faster than PyTorch was found. Closest: node 2, 0.80×" in said and "Best" not in said
