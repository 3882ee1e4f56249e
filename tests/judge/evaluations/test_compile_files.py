"""From files on the command line to candidates, a problem and a table."""

from __future__ import annotations

import json
from io import StringIO
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command

from judge.evaluations.compile_files import NotUsable, candidates, case_to_compile, table
from judge.values import Outcome, Verdict
from tests.judge.bench_problems import PROBLEM, TRITON

ROW = {
    "name": "add", "num_warps": 4, "num_stages": 3, "grid": [1, 1, 1], "regs": 20, "spills": 0, "shared_bytes": 1032,
    "error": None,
}  # fmt: skip


@pytest.fixture
def files(tmp_path: Path) -> dict[str, Path]:
    texts = {"problem": PROBLEM, "kernel": TRITON, "both": PROBLEM + TRITON, "neither": "x = 1", "torn": "def f(:"}
    for name, text in texts.items():
        (tmp_path / f"{name}.py").write_text(text)
    return {name: tmp_path / f"{name}.py" for name in texts}


def test_the_file_with_the_reference_alone_is_the_problem(files):
    [found] = candidates([files["problem"], files["kernel"]], None)
    assert (found.name, found.source, found.problem) == ("kernel.py", TRITON, PROBLEM)


def test_a_file_may_hold_both(files):
    [found] = candidates([files["both"]], None)
    assert found.problem == found.source == PROBLEM + TRITON


def test_a_named_problem_is_everybodys(files):
    found = candidates([files["kernel"], files["both"]], "the problem")
    assert [row.problem for row in found] == ["the problem"] * 2


@pytest.mark.parametrize(
    ("names", "words"),
    [
        (["kernel"], "has no problem"),
        (["problem"], "None of the files defines ModelNew"),
        (["neither"], "has no problem"),
        (["kernel", "missing"], "cannot be read"),
    ],
)
def test_what_is_missing_is_said(files, names, words):
    paths = [files.get(name, Path("/nowhere/missing.py")) for name in names]
    with pytest.raises(NotUsable, match=words):
        candidates(paths, None)


def test_a_file_that_does_not_parse_is_left_for_the_judge_to_explain(files):
    [found] = candidates([files["torn"]], PROBLEM)
    assert found.source == "def f(:"


def test_the_table_counts_equal_launches_and_says_needed_and_available():
    outcome = Outcome(Verdict.COMPILED_ONLY, stage="compile", reason="compile.only", kernels=(ROW, ROW))
    head, line = table(outcome, "sm_90")
    assert head.split()[:3] == ["kernel", "launches", "configuration"]
    assert line.split() == ["add", "2", "-", "4", "3", "20", "0", "1,032", "of", "232,448"]


def test_an_autotuned_kernel_says_which_configuration_is_meant():
    outcome = Outcome(Verdict.COMPILED_ONLY, stage="compile", reason="compile.only", kernels=({**ROW, "configs": 12},))
    assert "first that fits of 12" in table(outcome, "sm_80")[1]


def test_nothing_launched_is_said():
    assert table(Outcome(Verdict.COMPILED_ONLY, stage="compile", reason="x"), "sm_90") == ["no kernel is launched"]


@pytest.mark.parametrize(
    ("cases", "asked", "read", "compiled"),
    [
        ('{"gpu": {}, "interpreter": {}}', None, (), "gpu"),
        ('{"interpreter": {}}', None, (), None),
        ('{"gpu": {}, "odd": {}}', "odd", (), "odd"),
        ('{"gpu": {}}', "plain", (), None),
        ('{"plain": {}}', "plain", (), "plain"),
        ("dict(gpu={})", None, ("gpu", "interpreter"), "gpu"),
        ("dict(gpu={})", "gpu", (), "gpu"),
    ],
)
def test_the_case_is_the_one_asked_for_else_the_one_that_gpus_judge(cases, asked, read, compiled):
    assert case_to_compile(f"def get_cases():\n    return {cases}\n", asked, read) == compiled


def test_a_problem_without_cases_is_compiled_with_its_plain_constants():
    assert case_to_compile(PROBLEM, None) is None


def test_names_that_nobody_has_read_are_asked_for():
    with pytest.raises(NotUsable, match="computes the names of its cases"):
        case_to_compile("def get_cases():\n    return dict(gpu={})\n", None)


@pytest.mark.bench
def test_the_command_compiles_for_several_targets(files):
    out = StringIO()
    arguments = [str(files["problem"]), str(files["kernel"]), "--target", "sm_80", "--target", "sm_120", "--json"]
    call_command("judge_compile", *arguments, stdout=out)
    rows = [json.loads(line) for line in out.getvalue().splitlines()]
    assert [(row["file"], row["target"], row["verdict"]) for row in rows] == [
        ("kernel.py", "sm_80", "compiled_only"),
        ("kernel.py", "sm_120", "compiled_only"),
    ]
    assert all(row["kernels"][0]["regs"] > 0 for row in rows)


@pytest.mark.bench
@pytest.mark.usefixtures("compiler_lent")
def test_the_command_says_what_does_not_compile_and_fails(files, tmp_path):
    broken = tmp_path / "broken.py"
    broken.write_text(TRITON.replace("tl.sum(v, 0) / n", "tl.no_such_function(v)"))
    out = StringIO()
    with pytest.raises(SystemExit) as ended:
        call_command("judge_compile", str(broken), "--problem", str(files["problem"]), stdout=out)
    assert ended.value.code == 1
    text = out.getvalue()
    assert text.startswith("broken.py for sm_90, plain constants: compile_failed (compile.error)")
    assert "mean = tl.no_such_function(v)" in text and "Traceback" not in text


def test_the_command_says_what_to_give(files):
    with pytest.raises(CommandError, match="--problem"):
        call_command("judge_compile", str(files["kernel"]))
