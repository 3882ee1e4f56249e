"""On a GPU: every layer is on the threads that CUDA's driver started before the lock, or says that it is not."""

from __future__ import annotations

import pytest

from judge.bench.device.nvml import gpus_here
from judge.bench.runner import Bench
from judge.bench.sandboxing import landlock, seccomp
from judge.selftest.entries import chosen, entries
from judge.selftest.run import run_entries
from judge.values import Job, Limits, ProblemSpec, Verdict
from tests.judge.bench_problems import PROBLEM, SAME, TRITON

pytestmark = [pytest.mark.cuda, pytest.mark.bench]


@pytest.fixture(scope="module")
def layers() -> dict[str, dict[str, str]]:
    """Of each child of an evaluation that passed: their contexts were made without capabilities and work."""
    if not gpus_here():
        pytest.skip("no NVIDIA GPU here")
    with Bench("cuda:0", alternatives=False) as bench:
        for source in (SAME, TRITON):
            outcome = bench.evaluate(Job("x", ProblemSpec(PROBLEM), source, limits=Limits(wall_s=120, stage_s=60)))
            assert outcome.verdict is Verdict.PASS, outcome
        return dict(outcome.environment["children"])


def test_what_belongs_to_a_thread_is_on_all_of_them(layers) -> None:
    for name, found in layers.items():
        if seccomp.available():
            assert found["seccomp"] == "active", name
        assert (found["capabilities"], found["no_new_privs"]) == ("active", "active"), name


def test_files_are_guarded_on_all_threads_where_the_machine_can_do_that(layers) -> None:
    for name, found in layers.items():
        if found["namespaces"] == "active":
            assert found["files"] == "active", name
        if landlock.abi():
            whole = landlock.abi() >= landlock.THREADS_SINCE
            assert found["landlock"].startswith("active" if whole else "partial ("), name


def test_code_on_a_thread_of_the_driver_reaches_no_file_outside(layers) -> None:
    guarded = {found["files"] for found in layers.values()} == {"active"}
    if not guarded and landlock.abi() < landlock.THREADS_SINCE:
        pytest.skip("neither user namespaces nor Linux 7.0: the doctor says that this machine cannot")
    report = run_entries(
        chosen(entries(), ids=("e70",)), "cuda:0", lambda name: Bench(name, alternatives=False), workers=1
    )
    assert [row.id for row in report.results if row.state.value != "right"] == []
