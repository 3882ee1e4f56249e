"""Export, import, the same tree: own searches and recorded ones, as run folder and as packed JSON."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from adaexplore_site.core.audit import ActionRefused
from judge.devices.models import Device
from judge.evaluations.measures import Measure
from judge.evaluations.models import Evaluation
from judge.problems.models import Problem
from judge.values import Basis, text_hash
from search.engine.completion import node_cancel, run_locked
from search.interchange.imports import folder_import, search_import
from search.interchange.packed import LOST, run_folder_files, run_folder_zip, run_packed
from search.interchange.recording import OWN
from search.proposers.protocol import Reply
from search.records.models import Node, Run
from search.records.queries import run_tree
from search.records.queue import FollowUp
from search.reports.build import report_of
from tests.search.fakes import FakeBench, ScriptedProposer, passed, wrong
from tests.search.makers import Worker, make_run
from tests.search.recorded import REFERENCE, packed, quick_hashes, step  # noqa: F401

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("quick_hashes")]

FORMS = {"zip": run_folder_zip, "packed": run_packed}


def looks(run: Run) -> list[tuple[Any, ...]]:
    """Everything a round trip keeps: one row per node, in number order."""
    sources = dict(run.nodes.values_list("number", "source"))
    contexts = dict(run.nodes.values_list("number", "context"))
    prompts = dict(run.nodes.exclude(proposals__prompt="").values_list("number", "proposals__prompt"))
    return [
        (
            *(node.number, node.parent, node.kind, node.state, node.told_order, node.verdict, node.speedup),
            *(round(node.reward, 9), node.visits, round(node.total, 9), node.summary),
            *(sources[node.number], contexts[node.number] if node.told_order else [], prompts.get(node.number)),
        )
        for node in run_tree(run).nodes
    ]


def there_and_back(run: Run, form: str) -> Run:
    name, data = FORMS[form](run)
    back = search_import(data=data, name=name)
    assert back.pk != run.pk
    return Run.objects.get(pk=back.pk)


def own_run() -> Run:
    """Ten steps, four in flight, with every kind of ending, one node withdrawn and told orders unlike numbers."""
    run = make_run(steps=10, concurrency=4, seed=3, params={"w": 0.7})
    Problem.objects.update(source=REFERENCE, source_hash=text_hash(REFERENCE))
    no_code = ScriptedProposer({2: lambda task: Reply(reason="proposal.no_code", message="no code")})
    worker = Worker(no_code, FakeBench({1: wrong(), 2: passed(14.5), 4: passed(0.5)}))
    first = worker.do(FollowUp("advance", run.pk))
    node = Node.objects.get(run=run, number=3)
    node_cancel(run=run_locked(run.pk), node=node, why="enough")
    worker.work([follow_up for follow_up in reversed(first) if follow_up.target != node.pk])
    worker.run(run)
    return Run.objects.get(pk=run.pk)


@pytest.mark.parametrize("form", FORMS)
def test_an_own_search_comes_back_as_the_same_tree(form):
    run = own_run()
    before = looks(run)
    assert {row[5] for row in before} >= {"pass", "wrong", "bad_source"}
    assert [row[3] for row in before].count("cancelled") == 1
    assert [row[4] for row in before if row[4]] != sorted(row[4] for row in before if row[4])
    back = there_and_back(run, form)
    assert looks(back) == before
    assert (back.params, back.seed, back.steps) == (run.params, run.seed, 10)


@pytest.mark.parametrize("form", FORMS)
def test_what_a_person_had_a_hand_in_is_still_marked_when_it_comes_back(form):
    run = own_run()
    run.nodes.filter(number__in=(2, 5)).update(touched=True)
    back = there_and_back(run, form)
    assert set(back.nodes.filter(touched=True).values_list("number", flat=True)) == {2, 5}


def test_a_second_round_trip_changes_nothing_more():
    once = there_and_back(own_run(), "packed")
    assert looks(there_and_back(once, "zip")) == looks(once)


@pytest.mark.parametrize(("problem", "form"), [(18, "zip"), (42, "packed"), (44, "zip"), (63, "packed"), (70, "zip")])
def test_a_recorded_search_comes_back_as_the_same_tree(form, problem, fixtures_dir: Path):
    path = fixtures_dir / "recorded_searches" / f"kb-l2-p{problem}-200.json.gz"
    run = search_import(data=path.read_bytes(), name=path.name)
    back = there_and_back(run, form)
    assert looks(back) == looks(run)
    assert (back.title, back.device_id, back.problem_id) == (run.title, run.device_id, run.problem_id)
    reported = [
        {node.number: node.evaluation.report for node in one.nodes.select_related("evaluation") if node.evaluation}
        for one in (run, back)
    ]
    assert reported[0] == reported[1]


def test_the_packed_export_of_a_recorded_search_says_what_the_original_said(fixtures_dir: Path):
    path = fixtures_dir / "recorded_searches" / "kb-l2-p63-200.json.gz"
    original = json.loads(gzip.decompress(path.read_bytes()))
    export = json.loads(gzip.decompress(run_packed(search_import(data=path.read_bytes(), name=path.name))[1]))
    same = ("step", "node_id", "parent_node_id", "context_node_ids", "depth", "created_by", "visits", "score", "code")
    more = ("runtime_us", "baseline_time_us", "hardware", "global_best_node_id")
    for theirs, ours in zip(original["steps"][1:], export["steps"][1:], strict=True):
        assert {key: ours[key] for key in (*same, *more)} == {key: theirs[key] for key in (*same, *more)}
        assert ours["total_reward"] == pytest.approx(theirs["total_reward"])
    assert (export["label"], export["run_dir"]) == (original["label"], original["run_dir"])


def test_what_is_lost_stands_in_the_manifest():
    manifest = json.loads(run_folder_files(own_run())["manifest.json"])
    assert manifest[OWN]["not_carried"] == list(LOST)
    assert manifest[OWN]["basis"] == "modelled"


def test_a_modelled_time_does_not_pass_for_a_gpu_s():
    run = own_run()
    files = run_folder_files(run)
    assert json.loads(files["step_1_metrics.json"])["runtime_stats"]["hardware"] == "MODELLED sm_90"
    assert there_and_back(run, "zip").device.name == "modelled:sm_90"


@pytest.mark.parametrize("form", FORMS)
def test_a_modelled_search_stays_modelled_with_its_error_however_often_it_travels(form):
    run = own_run()
    evaluated = run.nodes.filter(evaluation__speedup__isnull=False).select_related("evaluation").order_by("number")
    measures = [(str(Measure.of(node.evaluation)), node.evaluation.audit) for node in evaluated]
    assert measures and all("MODELLED" in words for words, _ in measures)
    for _ in range(2):
        before, run = run, there_and_back(run, form)
        assert run.device.basis is Basis.MODELLED and run.device.kind == Device.Kind.EXTERNAL
        back = run.nodes.filter(evaluation__speedup__isnull=False).select_related("evaluation").order_by("number")
        assert [(str(Measure.of(node.evaluation)), node.evaluation.audit) for node in back] == measures
        assert run_tree(run).best == run_tree(before).best
        told = run.events.filter(kind="node.best").latest("seq").payload
        assert (told["basis"], told["low"] is None, told["high"] is None) == ("modelled", False, False)


def test_a_modelled_speedup_that_was_not_audited_is_no_best_after_the_journey_either():
    run = own_run()
    best = run.nodes.get(number=run_tree(run).best).evaluation
    Evaluation.objects.filter(pk=best.pk).update(audit="failed")
    assert run_tree(there_and_back(run, "packed")).best == run_tree(run).best != best.nodes.get().number


def test_imported_models_enter_no_aggregate_of_measured_or_audited_searches():
    run = own_run()
    blocks = report_of([run, there_and_back(run, "zip")], title="both").blocks
    assert [(block.basis.value, block.device, block.elsewhere) for block in blocks] == [
        ("modelled", "interpreter", False),
        ("modelled", "modelled:sm_90", True),
    ]
    assert {table.population for table in blocks[1].tables} == {"judged"}


@pytest.mark.parametrize("change", [{"low": None}, {"basis": "measured"}, {"high": 0.1}, {"low": True}])
def test_a_modelled_speedup_without_its_range_is_refused(change):
    document = json.loads(gzip.decompress(run_packed(own_run())[1]))
    next(row for row in document["steps"][1:] if row["score"]["correct"])[OWN] |= change
    with pytest.raises(ActionRefused, match="must come with the range"):
        search_import(data=json.dumps(document).encode(), name="odd.json")


def test_pages_of_an_imported_model_say_modelled_and_claim_no_audit_of_ours(client, django_user_model):
    back = there_and_back(own_run(), "zip")
    client.force_login(django_user_model.objects.create_user("looker"))
    node = back.nodes.select_related("evaluation").get(number=run_tree(back).best)
    pages = (f"/s/{back.pk}/", f"/s/{back.pk}/n/{node.number}/", f"/evaluations/{node.evaluation_id}/", "/fleet/")
    for address in pages:
        text = client.get(address).content.decode()
        assert "MODELLED" in text and "basis-reported" not in text, address
    assert "judged elsewhere, not audited here" in client.get(pages[2]).content.decode()


def test_a_folder_as_the_original_writes_it_is_taken(tmp_path: Path):
    run = search_import(data=packed([step(1, 0), step(2, 1, kind="small_step", context=[1], fast_p=0)]), name="x.json")
    folder = tmp_path / "2_18"
    folder.mkdir()
    for name, text in run_folder_files(run).items():
        (folder / name).write_text(text)
    (folder / "manifest.json").unlink()
    for path in folder.glob("*_metrics.json"):
        metrics = json.loads(path.read_text())
        metrics["metadata"].pop(OWN, None)
        path.write_text(json.dumps(metrics))
    back = folder_import(folder=folder)
    assert (back.title, back.imported["run_dir"]) == ("L2 / 18 (2 steps)", "2_18")
    assert [row[:7] for row in looks(back)] == [row[:7] for row in looks(run)]
    assert run_tree(back).nodes[0].visits == 2
    assert folder_import(folder=folder).pk == back.pk


def own(**changes: Any) -> dict[str, Any]:
    return {OWN: changes}


@pytest.mark.parametrize(
    ("steps", "changes", "said"),
    [
        ([step(1, 0, **own(verdict="wrong"))], {}, "the verdict 'wrong' does not go with its score"),
        ([step(1, 0, fast_p=0, **own(verdict="pass"))], {}, "does not go with its score"),
        ([step(1, 0, **own(verdict=7))], {}, "does not go with its score"),
        ([step(1, 0)], own(withdrawn=[{"node_id": 2, "parent_node_id": 2, "created_by": "large_step"}]), "no steps"),
        ([step(1, 0)], own(withdrawn=[{"node_id": 2, "parent_node_id": 0, "created_by": "x"}]), "created_by must be"),
        ([step(1, 0)], own(withdrawn=5), "must list nodes"),
    ],
)
def test_an_export_somebody_has_altered_is_refused(steps, changes, said):
    with pytest.raises(ActionRefused, match=said):
        search_import(data=packed(steps, **changes), name="x.json")
    assert not Run.objects.exists()


def test_ids_that_run_uphill_or_have_gaps_are_numbered_as_they_stand():
    for ids in ((2, 1), (5, 9)):
        run = search_import(data=packed([step(ids[0], 0), step(ids[1], ids[0])], label=str(ids)), name="x.json")
        assert [(node.number, node.parent, node.depth) for node in run_tree(run).nodes] == [
            (0, None, 0),
            (1, 0, 1),
            (2, 1, 2),
        ]


def test_settings_of_another_version_give_way_to_the_defaults():
    run = search_import(data=packed([step(1, 0)], **own(params={"w": "much"}, seed=-4)), name="x.json")
    assert (run.params["w"], run.seed) == (0.3, 0)
