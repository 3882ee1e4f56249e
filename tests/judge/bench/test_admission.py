"""The preflight: what it finds out about a problem, and what it says about those that cannot be judged."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from judge.values import AdmissionReport, StageRecord
from tests.judge import problem_texts
from tests.judge.problem_texts import HEAD, TAIL, module


@pytest.fixture
def examine(tmp_path: Path):
    """Admit a source on the interpreter; the stages sent are kept in `examine.sent`."""

    def run(source: str, case: str | None = None) -> AdmissionReport:
        run.sent = []
        return problem_texts.examine(source, tmp_path, case, send=run.sent.append)

    return run


def failed(report: AdmissionReport) -> StageRecord:
    (stage,) = [record for record in report.stages if record.state == "failed"]
    return stage


def test_a_good_problem_is_admitted_with_its_facts(examine) -> None:
    report = examine(module("return torch.relu(self.linear(x))", "self.linear = nn.Linear(32, 8)"))
    assert (report.state, report.reason, report.parameters) == ("admitted", "", 32 * 8 + 8)
    assert report.inputs == ({"shape": [16, 32], "dtype": "float32"},)
    assert report.outputs == ({"shape": [16, 8], "dtype": "float32"},)
    assert report.compulsory_bytes == 4 * (16 * 32 + 32 * 8 + 8 + 16 * 8)
    assert report.flops == pytest.approx(2 * 16 * 32 * 8, rel=0.1)
    assert [node["op"] for node in report.graph["nodes"]][-3:-1] == ["aten.linear.default", "aten.relu.default"]


def test_every_stage_is_sent_in_order_and_the_report_is_plain_json(examine) -> None:
    report = examine(module("return x * 2 + 1"))
    names = [record.name for record in examine.sent]
    told = "shapes size construct inputs reference output finite deterministic graph cost worth algebra null baseline"
    assert names == told.split()
    assert tuple(examine.sent) == report.stages
    details = {record.name: record.detail for record in report.stages}
    assert re.search(r"no faster than [\d.]+ µs on", details["cost"])
    assert re.search(r"[\d.]+ µs in eager mode, MODELLED, within [\d.]+×", details["baseline"])
    assert AdmissionReport.from_json(json.loads(json.dumps(report.to_json(), allow_nan=False))) == report


def test_an_unused_input_is_a_warning(examine) -> None:
    tail = TAIL.replace("[torch.randn(SIZE, 32)]", "[torch.randn(4), torch.randn(4)]")
    report = examine(module("return x * 3", tail=tail).replace("forward(self, x)", "forward(self, x, y)"))
    (flaw,) = report.flaws
    assert (
        report.state == "admitted" and flaw.code == "problem.unused_input" and "Input 1 has no effect" in flaw.message
    )


def test_too_large_for_the_interpreter_names_the_shape_and_the_way_out(examine) -> None:
    source = module("return x @ x.T", tail=TAIL.replace("SIZE, 32", "SIZE, 4096"), head=HEAD.replace("16", "4096"))
    report = examine(source)
    assert (report.state, report.reason) == ("refused", "problem.too_big_for_interpreter")
    assert "[4096, 4096]" in report.message and "GPU worker" in report.message
    assert '"interpreter": {"SIZE": ...}' in failed(report).fix


def test_a_petabyte_is_refused_without_allocating_it(examine) -> None:
    report = examine(module("return x * 2", head=HEAD.replace("16", str(1 << 43))))
    assert report.reason == "problem.too_big_for_interpreter"


def test_a_smaller_case_makes_a_large_problem_fit(examine) -> None:
    tail = TAIL + '\ndef get_cases():\n    return {"interpreter": {"SIZE": 8}}\n'
    source = module("return x * 2", head=HEAD.replace("16", str(1 << 30)), tail=tail)
    report = examine(source, case="interpreter")
    assert (report.state, report.case, report.cases) == ("admitted", "interpreter", ("interpreter",))


@pytest.mark.parametrize(
    ("forward", "stage", "words"),
    [
        ("raise ValueError('no way')", "reference", "ValueError: no way"),
        ("raise SystemExit(0)", "reference", "SystemExit"),
        ("return x @ x", "reference", "shapes cannot be multiplied"),
        ("return 3", "output", "no tensor"),
        ("return []", "output", "no tensor"),
        ("return x[:0]", "output", "empty"),
        ("return x.to_sparse()", "output", "only dense tensors"),
        ("return {'y': {1, 2}}", "output", "a set"),
        ("return x * float('nan')", "finite", "NaN or infinite"),
        ("self.n = getattr(self, 'n', 0) + 1\nreturn x * self.n", "deterministic", "differ"),
    ],
)
def test_a_reference_that_cannot_be_judged_is_refused_with_a_fix(examine, forward: str, stage: str, words: str) -> None:
    report = examine(module(forward))
    record = failed(report)
    assert (report.state, record.name) == ("refused", stage)
    assert words in record.detail and record.fix and report.reason.startswith("problem.")


@pytest.mark.parametrize(
    ("old", "new", "stage"),
    [
        ("return []", "return 3", "construct"),
        ("return []", "return [1, 2]", "construct"),
        ("[torch.randn(SIZE, 32)]", "[3]", "inputs"),
        ("[torch.randn(SIZE, 32)]", "1 / 0", "inputs"),
    ],
)
def test_factories_that_fail_are_refused_at_their_stage(examine, old: str, new: str, stage: str) -> None:
    report = examine(module("return x * 2", tail=TAIL.replace(old, new)))
    assert failed(report).name == stage and failed(report).fix


def test_an_error_shows_the_line_of_the_problem_and_no_private_folder(examine, tmp_path: Path) -> None:
    message = examine(module("return x.nothing")).message
    assert "problem.py" in message and "x.nothing" in message and str(tmp_path) not in message


def test_data_dependent_code_is_admitted_without_a_graph(examine) -> None:
    report = examine(module("return x * 2 if x.sum() > 0 else -x"))
    assert report.state == "admitted" and report.graph is None
    warned = next(record for record in report.stages if record.name == "graph")
    assert warned.state == "warned" and "depends on the values" in warned.detail


def test_dropout_in_train_mode_is_a_warning(examine) -> None:
    report = examine(module("return self.drop(x)", "self.drop = nn.Dropout(0.5)"))
    warned = next(record for record in report.stages if record.name == "deterministic")
    assert report.state == "admitted" and warned.state == "warned" and "dropout" in warned.detail


def test_a_reference_that_writes_its_input_is_examined_on_copies(examine) -> None:
    assert examine(module("return x.mul_(2).add_(1)")).state == "admitted"


def test_a_tensor_alone_is_one_argument(examine) -> None:
    report = examine(module("return x * 2 + 1", tail=TAIL.replace("[torch.randn(SIZE, 32)]", "torch.randn(SIZE, 32)")))
    assert (report.state, len(report.inputs), report.inputs[0]["shape"]) == ("admitted", 1, [16, 32])


def test_gathered_tables_count_only_what_comes_out(examine) -> None:
    tail = TAIL.replace("torch.randn(SIZE, 32)", "torch.randint(0, 1000, (4,))")
    report = examine(module("return self.table(x)", "self.table = nn.Embedding(1000, 8)", tail=tail))
    assert report.compulsory_bytes == 4 * 8 + 4 * 8 * 4 + 4 * 8 * 4  # indices, rows read, rows written
