"""Taking recorded searches in: whole, once, quickly, and never half."""

from __future__ import annotations

import gzip
import json
from io import StringIO

import pytest
from django.core.management import CommandError, call_command
from django.db import connection
from django.test.utils import CaptureQueriesContext

from adaexplore_site.core.audit import ActionRefused
from adaexplore_site.core.models import AuditEntry
from judge.devices.models import Device
from judge.evaluations.models import Evaluation
from judge.problems.models import Problem
from judge.values import canonical_hash
from search.algorithm.params import SearchParams
from search.interchange.imports import search_import
from search.interchange.recording import OWN
from search.records.facts import node_rows, tree_of
from search.records.models import Node, Proposal, Run, RunEvent
from search.records.queries import run_summary, run_tree
from search.runs.services import run_pause
from tests.search.makers import Worker, kinds, told
from tests.search.recorded import REFERENCE, packed, step

pytestmark = pytest.mark.django_db

STEPS = [
    step(1, 0, fast_p=1.5),
    step(2, 1, kind="small_step", context=[1], fast_p=0, error="triton.compiler.errors.CompilationError: no"),
    step(3, 1, kind="small_step", context=[1], fast_p=3.0),
    step(4, 0, fast_p=0, score={"compiled": False, "correct": False, "fast_p": 0.0}, error="SyntaxError: x", code=""),
]


def gap(**changes: object) -> dict[str, object]:
    """What our own export says of one withdrawn node."""
    return {OWN: {"withdrawn": [{"node_id": 2, "parent_node_id": 0, "created_by": "large_step", **changes}]}}


def imported(**changes) -> Run:
    return search_import(data=packed(STEPS, **changes), name="folder/kb.json.gz", user=None)


def rows() -> tuple[int, ...]:
    return tuple(
        model.objects.count() for model in (Problem, Device, Evaluation, Run, Node, Proposal, RunEvent, AuditEntry)
    )


def test_an_imported_search_is_a_finished_run_marked_as_imported():
    run = imported()
    assert (run.state, run.origin, run.steps) == (Run.State.FINISHED, Run.Origin.IMPORT, 4)
    assert (run.imported["label"], run.imported["file"]) == ("L2 / 7 (test)", "folder/kb.json.gz")
    assert (run.problem.origin, run.problem.level) == (Problem.Origin.IMPORT, "level2")
    assert (run.device.name, run.device.kind) == ("external:Test GPU", Device.Kind.EXTERNAL)


@pytest.mark.parametrize(("slug", "kept"), [("row_softmax", "row_softmax"), ("../x", "run"), (7, "run"), ("", "run")])
def test_a_problem_that_is_new_here_has_the_name_of_the_export_not_of_its_file(slug, kept):
    data = packed(STEPS, **{OWN: {"problem": {"slug": slug}}})
    assert search_import(data=data, name="run.json").problem.slug == kept


def test_figures_params_and_names_that_no_column_takes_are_left_out_or_replaced():
    rows = [step(1, 0, runtime_us=10**400, hardware="GPU \ud800")]
    run = search_import(data=packed(rows, **{OWN: {"params": {"w": 10**400}}}), name="odd.json")
    assert (run.device.name, SearchParams.from_json(run.params)) == ("external:GPU ?", SearchParams())
    assert told(run)[0].evaluation.report["reported"].get("runtime_us") is None


def test_its_nodes_keep_kind_parent_context_prompt_and_verdict():
    nodes = told(imported())
    assert [(n.parent.number, n.kind, n.context) for n in nodes[:3]] == [
        (0, "large", []),
        (1, "small", [1]),
        (1, "small", [1]),
    ]
    assert [n.evaluation.verdict for n in nodes] == ["pass", "compile_failed", "pass", "bad_source"]
    assert [n.proposals.get().prompt for n in nodes] == ["prompt 1", "prompt 2", "prompt 3", "prompt 4"]
    assert nodes[2].source_hash == canonical_hash(nodes[2].source)
    assert nodes[3].source_hash == ""


def test_its_speedups_are_reported_ones_without_interval_or_count():
    evaluation = told(imported())[0].evaluation
    assert (evaluation.speedup, evaluation.basis) == (1.5, "reported")
    assert (evaluation.speedup_low, evaluation.speedup_high, evaluation.speedup_n) == (None, None, None)


def test_it_can_be_summed_up_and_scrubbed_like_any_run():
    run = imported()
    log = kinds(run)
    assert (log[0], log[-1], run.event_seq) == ("run.started", "run.ended", len(log))
    assert log.count("node.told") == 4
    assert (run_tree(run).best, run_summary(run).best, run_summary(run).told) == (3, 3, 4)
    assert run_summary(run).elapsed_s is None
    assert Worker().later() == []
    with pytest.raises(ActionRefused):
        run_pause(run=run, user=None)


def test_the_same_file_twice_gives_the_same_run_packed_or_not():
    first = imported()
    before = rows()
    assert search_import(data=gzip.compress(packed(STEPS)), name="other.gz", user=None) == first
    assert rows() == before


def test_another_search_on_the_same_problem_shares_the_problem():
    first, second = imported(), imported(label="L2 / 7 (again)")
    assert first != second
    assert first.problem == second.problem


def test_a_deleted_import_can_be_imported_anew():
    imported().delete()
    assert imported().nodes.count() == 5


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "not JSON"),
        (b"\xff\xfe\x00binary", "not JSON"),
        (b"\x1f\x8b broken", "damaged"),
        (gzip.compress(b"x" * 100, mtime=0)[:-9], "damaged"),
        (b"[" * 100_000, "not JSON"),
        (b"{}", "no list"),
        (packed(STEPS, reference_src=""), "reference_src"),
        (packed(STEPS, reference_src="def broken(:"), "reference source cannot be used"),
        (packed([]), "1 to 20000 steps"),
        (packed([7]), "Step 1 is not an object"),
        (packed([step(1, 9)]), "parent 9 is not an earlier node"),
        (packed([step(1, 1)]), "parent 1 is not an earlier node"),
        (packed([step(1, 0), step(1, 0)]), "node_id must be a whole number used once"),
        (packed([step(1, 0, kind="jump")]), "large_step or small_step"),
        (packed([step(1, 0, context=[5])]), "must list earlier nodes"),
        (packed([step(1, 0, fast_p=float("inf"))]), "fast_p must be a speedup"),
        (packed([step(1, 0, code=5)]), "code must be text"),
        (packed([step(1, 0, score=None)]), '"score" is missing'),
        (packed([step(1, 0, fast_p=10**400)]), "fast_p must be a speedup"),
        (packed([step(1, 0)], **gap(parent_node_id=[])), "must list nodes that are no steps"),
        (packed([step(1, 0)], **gap(created_by=[])), "created_by must be large_step or small_step"),
    ],
)
def test_a_broken_file_gets_a_clear_message_and_writes_nothing(data, words):
    before = rows()
    with pytest.raises(ActionRefused, match=words):
        search_import(data=data, name="kb.json", user=None)
    assert rows() == before


def test_a_gzip_bomb_is_not_unpacked(monkeypatch):
    monkeypatch.setattr("search.interchange.recording.MAX_BYTES", 1000)
    with pytest.raises(ActionRefused, match="unpacks to more than"):
        search_import(data=gzip.compress(b" " * 1_000_000, mtime=0), name="bomb.gz", user=None)


def test_hostile_text_is_stored_harmlessly():
    rows = [
        step(1, 0, code="a\x00b \ud800", prompt="<script>\x00", error=None),
        step(2, 1, error="e\x00" * 5000, fast_p=0),
    ]
    run = search_import(data=packed(rows, label="\x00<b>"), name="../../etc/x\x00.json", user=None)
    first, second = told(run)
    assert "\x00" not in first.source + first.proposals.get().prompt + run.title + second.evaluation.message
    assert len(second.evaluation.message) <= 4000


def test_a_deep_chain_of_steps_is_imported():
    run = search_import(data=packed([step(k, k - 1) for k in range(1, 120)]), name="chain.json", user=None)
    assert run_tree(run).get(119).depth == 119


def test_the_command_imports_and_says_what_was_there_already(tmp_path):
    path = tmp_path / "kb.json"
    path.write_bytes(packed(STEPS))
    out = StringIO()
    call_command("import_search", str(path), str(path), "--no-preflight", stdout=out)
    first, second = out.getvalue().splitlines()
    assert first.startswith("kb.json: run ")
    assert second == f"{first} (already there)"


@pytest.mark.bench
def test_the_command_flags_a_degenerate_problem_that_is_too_large_to_run(fixtures_dir, interpreter_bench, monkeypatch):
    monkeypatch.setattr("search.management.commands.import_search.bench_for", lambda device: interpreter_bench)
    out = StringIO()
    call_command("import_search", str(fixtures_dir / "recorded_searches" / "kb-l2-p18-200.json.gz"), stdout=out)
    assert "kb-l2-p18-200: degenerate (problem.dead_ops, problem.collapses)" in out.getvalue()
    problem = Run.objects.get().problem
    assert (problem.state, problem.report_for("interpreter")["state"]) == ("degenerate", "refused")


def test_the_command_names_a_file_that_is_missing(tmp_path):
    with pytest.raises(CommandError, match=r"nothing\.json cannot be read"):
        call_command("import_search", str(tmp_path / "nothing.json"))


def test_the_command_imports_what_it_can_and_names_the_rest(tmp_path):
    for name, data in (("a.json", b"{"), ("b.json", packed(STEPS)), ("c.json", b"[]")):
        (tmp_path / name).write_bytes(data)
    out = StringIO()
    paths = [str(tmp_path / name) for name in ("a.json", "b.json", "c.json")]
    with pytest.raises(CommandError, match=r"2 of 3 were not imported:\n.*a\.json.*\n.*c\.json"):
        call_command("import_search", *paths, "--no-preflight", stdout=out)
    assert out.getvalue().startswith("b.json: run ") and Run.objects.count() == 1


def test_a_published_search_is_imported_with_few_queries_and_keeps_its_figures(fixtures_dir):
    path = fixtures_dir / "recorded_searches" / "kb-l2-p63-200.json.gz"
    data = path.read_bytes()
    with CaptureQueriesContext(connection) as queries:
        run = search_import(data=data, name=path.name, user=None)
    assert len(queries) < run.nodes.count()
    last = json.loads(gzip.decompress(data))["steps"][-1]
    best = run_tree(run).get(run_tree(run).best)
    assert (best.number, best.speedup) == (last["global_best_node_id"], last["global_best_fast_p"])
    tree = tree_of(node_rows(run.pk), SearchParams.from_json(run.params))
    assert tree.root.visits == 200
    assert SearchParams.from_json(run.params) == SearchParams()
    assert run.problem.source != REFERENCE
