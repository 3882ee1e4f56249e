"""A candidate's call under compute-sanitizer: what its report says, and that nothing of it stays."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from judge.bench.processes.known_problem import KNOWN, KNOWN_RIGHT
from judge.bench.processes.stopping import stoppable
from judge.bench.sanitizing.entering import LEVELS
from judge.bench.sanitizing.reading import LINE_CHARS, MOST_LINES, PREFIX, read_report
from judge.bench.sanitizing.running import Bounds, Sanitizer
from judge.values import JudgeError, ProblemSpec, Stopped
from judge.values.sanitizer import MOST_NAMES, CheckState, Findings, ToolRun
from tests.judge import fake_sanitizer

ENDLESS = KNOWN_RIGHT.replace("return x + 1", "\n        while True:\n            pass")


@pytest.fixture
def tool(monkeypatch, tmp_path):
    monkeypatch.setattr("judge.bench.sanitizing.running.STEP_S", 0.05)
    return fake_sanitizer.install(monkeypatch, tmp_path)


@pytest.fixture
def known(tool, monkeypatch):
    """The known kernel has passed in the strongest sandbox."""
    monkeypatch.setattr(Sanitizer, "_level", lambda self, folder: LEVELS[0])


def checked(candidate: str, problem: ProblemSpec = KNOWN, **how):
    return Sanitizer("cpu", **how).check(problem, candidate)


def commands() -> set[str]:
    """Command lines of the processes of this check, wherever they hang; benches of other tests have zygotes."""
    found = set()
    for place in Path("/proc").iterdir():
        try:
            line = (place / "cmdline").read_bytes().replace(b"\0", b" ").decode() if place.name.isdigit() else ""
        except OSError:
            continue
        if f"adaexplore-bench-{os.getpid()}-" in line and "processes.zygote" not in line:
            found.add(line)
    return found


def test_memcheck_s_report_gives_kinds_kernels_and_its_first_lines():
    found = read_report(fake_sanitizer.STRAY.encode())
    assert found.errors == 3
    assert found.kinds == {
        "invalid global write": 1,
        "invalid global read": 1,
        "call failed: CUDA_ERROR_LAUNCH_FAILED": 1,
    }
    assert found.kernels == {"scale_kernel": 2}
    assert found.lines[:2] == (
        "Invalid __global__ write of size 4 bytes",
        "    at scale_kernel+0x270 in /tmp/run/candidate.py:14",
    )
    assert not any("Host Frame" in line for line in found.lines)


def test_racecheck_s_report_counts_hazards():
    found = read_report(fake_sanitizer.RACE.encode())
    assert (found.errors, found.kinds, found.kernels) == (2, {"race": 2}, {"sum_kernel": 2})


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        ("Uninitialized __global__ memory read of size 4 bytes", "uninitialized global read"),
        ("Barrier error detected. Divergent thread(s) in warp.", "barrier error"),
        ("Warning: Potential RAW hazard detected at __shared__ 0x4 in block (0,0,0) :", "RAW hazard"),
        ("Invalid __shared__ atomic of size 8 bytes", "invalid shared atomic"),
    ],
)
def test_other_tools_errors_have_kinds(line, kind):
    assert read_report(f"========= {line}\n========= ERROR SUMMARY: 1 error\n".encode()).kinds == {kind: 1}


def test_a_report_without_its_summary_or_with_the_tool_s_own_failure_is_no_clean_one():
    assert read_report(b"========= COMPUTE-SANITIZER\n").errors is None
    failed = read_report(
        b"========= Internal Sanitizer Error: The driver is too new\n========= ERROR SUMMARY: 0 errors\n"
    )
    assert failed.fault == "Internal Sanitizer Error: The driver is too new"
    assert not read_report(fake_sanitizer.CLEAN.encode()).fault


PARTS = st.sampled_from(
    ["========= ", "Invalid __global__ write of size 4 bytes", "ERROR SUMMARY: 9999999999 errors", "   at ", "k+0x1 in",
     "Error: Race reported between ", "\n", "\0", "\ud800".encode("utf-8", "surrogatepass").decode("latin1"), "=" * 9]
)  # fmt: skip


@given(st.one_of(st.binary(max_size=600), st.lists(st.one_of(PARTS, st.text(max_size=20)), max_size=60).map(
    lambda parts: "".join(parts).encode("utf-8", "surrogatepass"))))  # fmt: skip
def test_any_bytes_are_read_into_bounded_values(raw):
    found = read_report(raw)
    assert found.errors is None or 0 <= found.errors <= 1_000_000_000
    assert len(found.kinds) <= MOST_NAMES and len(found.kernels) <= MOST_NAMES and len(found.lines) <= MOST_LINES
    assert all(len(line) <= LINE_CHARS and "\0" not in line and not PREFIX.match(line) for line in found.lines)


def test_a_right_kernel_is_clean_by_every_tool_and_its_sandbox_is_said(tool):
    report = checked(KNOWN_RIGHT, required=frozenset({"rlimits", "no_new_privs"}))
    assert [(run.tool, run.state) for run in report.runs] == [
        ("memcheck", CheckState.CLEAN),
        ("racecheck", CheckState.CLEAN),
    ]
    assert report.state is CheckState.CLEAN and report.path == str(tool)
    assert report.layers["no_new_privs"] == "active" and set(report.layers) >= {"namespaces", "files", "landlock"}


def test_a_stray_kernel_has_the_errors_of_each_tool(known):
    report = checked(KNOWN_RIGHT + "\n# stray\n")
    assert report.state is CheckState.ERRORS
    assert [run.findings.errors for run in report.runs] == [3, 2]
    assert report.to_json()["runs"][1]["findings"]["kinds"] == {"race": 2}


def test_a_candidate_that_raises_is_no_clean_one(known):
    report = checked(KNOWN_RIGHT.replace("return x + 1", "raise ValueError('no such thing')"))
    assert [run.state for run in report.runs] == [CheckState.FAILED] * 2
    assert "ValueError: no such thing" in report.runs[0].detail


def test_a_candidate_cannot_write_the_report(known):
    spoils = "\ntry:\n    open('../report', 'w')\nexcept OSError:\n    pass\nelse:\n    raise SystemExit('it wrote')\n"
    assert checked(KNOWN_RIGHT + spoils).state is CheckState.CLEAN


def test_a_candidate_gets_the_reference_s_parameters_and_prepare(known):
    problem = ProblemSpec(
        "import torch\n\n\nclass Model(torch.nn.Module):\n    def __init__(self, n):\n        super().__init__()\n"
        "        self.scale = torch.nn.Parameter(torch.full((n,), 7.0))\n\n    def forward(self, x):\n"
        "        return x * self.scale\n\n\ndef get_inputs():\n    return [torch.rand(4, 16)]\n\n\n"
        "def get_init_inputs():\n    return [16]\n"
    )
    candidate = (
        "import torch\n\n\nclass ModelNew(torch.nn.Module):\n    def __init__(self, n):\n        super().__init__()\n"
        "        self.scale = torch.nn.Parameter(torch.zeros(n))\n\n    def prepare(self):\n        self.ready = 1\n\n"
        "    def forward(self, x):\n        assert self.ready and (self.scale == 7).all() and x.shape == (4, 16)\n"
        "        return x * self.scale\n"
    )
    assert checked(candidate, problem).state is CheckState.CLEAN


def test_a_call_without_end_is_cut_and_nothing_of_it_lives(known):
    report = checked(ENDLESS, bounds=Bounds(wall_s=4.0))
    assert [run.state for run in report.runs] == [CheckState.TIMEOUT] * 2
    assert not commands()


def test_a_stopped_check_leaves_no_process(known):
    seen: list[set[str]] = []

    def unwanted() -> bool:
        seen.append(commands())
        return any("sanitizing.program" in line for line in seen[-1])

    with pytest.raises(Stopped), stoppable(unwanted):
        checked(ENDLESS)
    assert seen[-1] and not commands()


def test_too_much_memory_ends_the_run(known):
    hungry = KNOWN_RIGHT.replace(
        "return x + 1", "self.kept = b'x' * (900 << 20)\n        while True:\n            pass"
    )
    report = checked(hungry, bounds=Bounds(memory_mb=700, wall_s=60.0))
    assert [run.state for run in report.runs] == [CheckState.MEMORY] * 2


def test_where_no_known_kernel_passes_the_tool_is_to_blame(tool):
    (tool.parent / "memcheck.clean").write_text(
        "========= Error: No attachable process found. compute-sanitizer timed-out.\n"
    )
    with pytest.raises(JudgeError, match=r"does not pass a known kernel .* No attachable process"):
        checked(KNOWN_RIGHT)


def test_missing_sandbox_layers_keep_the_candidate_from_running(tool):
    with pytest.raises(JudgeError, match="sandbox layers are not active: memory_limit"):
        checked(KNOWN_RIGHT, required=frozenset({"memory_limit"}))


def test_without_the_tool_it_says_what_to_install(monkeypatch):
    monkeypatch.setattr("judge.bench.sanitizing.running.sanitizer_path", lambda: None)
    with pytest.raises(JudgeError, match=r"not installed .* cuda-sanitizer"):
        Sanitizer("cuda:0")


def test_a_run_with_errors_says_so_and_no_other_one():
    with pytest.raises(ValueError, match="errors"):
        ToolRun("memcheck", CheckState.CLEAN, 1.0, findings=Findings(errors=2))
    with pytest.raises(ValueError, match="errors"):
        ToolRun("memcheck", CheckState.ERRORS, 1.0)
