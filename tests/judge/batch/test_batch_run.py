"""`python -m judge.bench`: every job gets its outcome once, whatever happens in between."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys
import time
from argparse import Namespace
from contextlib import nullcontext
from pathlib import Path

import pytest

from judge.batch import command as batch
from judge.batch.command import conduct
from judge.batch.lines import Busy, OutcomeFile, job_line, read_outcome
from judge.devices.keys import make_key
from judge.values import JudgeError, Verdict
from tests.judge.batch_makers import KEY, job, passed, tells_sealed
from tests.judge.bench_problems import SAME, candidate

ROOT = Path(__file__).resolve().parents[3]


class FakeBench:
    device = "interpreter"

    def __init__(self, *answers: object) -> None:
        self.answers, self.jobs = list(answers), []

    def facts(self) -> dict[str, object]:
        return {"device": self.device, "target": "sm_90", "toolchain": "torch 2.13 triton 3.7 sm_90", "sandbox": {}}

    def evaluate(self, job):
        self.jobs.append(job.id)
        answer = self.answers.pop(0) if self.answers else passed()
        if isinstance(answer, BaseException):
            raise answer
        return answer


def job_file(folder: Path, *lines: bytes) -> Path:
    path = folder / "jobs.jsonl"
    path.write_bytes(b"".join(line + b"\n" for line in lines))
    return path


def signed(name: str, **changes) -> bytes:
    return job_line(job(name, **changes), nonce=f"nonce-{name}", key=KEY)


def run(path: Path, bench: FakeBench, say=lambda line: None):
    with OutcomeFile(path.parent / "out.jsonl") as out:
        return conduct(path, out, bench=bench, key=KEY, say=say)


def outcomes(folder: Path) -> list:
    return [read_outcome(line, {"lab": KEY}) for line in (folder / "out.jsonl").read_bytes().splitlines()]


def test_a_second_run_judges_only_what_is_missing(tmp_path) -> None:
    path = job_file(tmp_path, signed("a"), signed("b"), signed("c"))
    with pytest.raises(KeyboardInterrupt):
        run(path, FakeBench(passed(), KeyboardInterrupt()))
    again = FakeBench()
    tally = run(path, again)
    assert again.jobs == ["b", "c"]
    assert (tally.judged, tally.known) == (2, 1)
    assert [line.id for line in outcomes(tmp_path)] == ["a", "b", "c"]


def test_a_line_torn_by_a_kill_is_judged_again(tmp_path) -> None:
    path = job_file(tmp_path, signed("a"), signed("b"))
    run(path, FakeBench())
    out = tmp_path / "out.jsonl"
    out.write_bytes(out.read_bytes()[:-20])
    again = FakeBench()
    run(path, again)
    assert again.jobs == ["b"]
    assert [line.id for line in outcomes(tmp_path)] == ["a", "b"]


def test_a_bad_line_is_told_and_the_rest_goes_on(tmp_path) -> None:
    stolen = signed("x").replace(b"class ModelNew", b"class modelNew")
    path = job_file(tmp_path, b"{", signed("a"), b"", stolen, b'{"id": 3}', signed("a"), signed("b"))
    said: list[str] = []
    bench = FakeBench()
    tally = run(path, bench, said.append)
    assert bench.jobs == ["a", "b"]
    assert (tally.judged, tally.known, tally.refused) == (2, 1, 3)
    assert [line.partition(" is")[0] for line in said if "refused" in line] == ["line 1", "line 4", "line 5"]


def test_a_fault_of_the_judge_is_tried_again_and_then_lost(tmp_path) -> None:
    path = job_file(tmp_path, signed("a"), signed("b"))
    fault = JudgeError("no child")
    tally = run(path, FakeBench(fault, fault, passed(), fault, fault, fault))
    assert [line.outcome.verdict for line in outcomes(tmp_path)] == [Verdict.PASS, Verdict.LOST]
    assert tally.lost == 1


def test_a_job_exported_anew_is_judged_anew(tmp_path) -> None:
    run(job_file(tmp_path, signed("a")), FakeBench())
    again = FakeBench()
    run(job_file(tmp_path, job_line(job("a"), nonce="another", key=KEY)), again)
    assert again.jobs == ["a"]


def test_two_processes_never_write_one_file_and_other_accounts_see_none(tmp_path) -> None:
    before = os.umask(0)
    try:
        with OutcomeFile(tmp_path / "out.jsonl"), pytest.raises(Busy):
            OutcomeFile(tmp_path / "out.jsonl")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "out.jsonl").stat().st_mode) == 0o600
    with OutcomeFile(tmp_path / "out.jsonl") as again:
        assert again.finished() == set()


def test_a_sealed_case_is_in_no_outcome_and_no_line_of_the_log(tmp_path) -> None:
    said: list[str] = []
    run(job_file(tmp_path, signed("a"), signed("b")[:-9]), FakeBench(), said.append)
    everything = (tmp_path / "out.jsonl").read_text() + "\n".join(said)
    assert not tells_sealed(everything)


# -- the real command -------------------------------------------------------------------------------------------------


def command(folder: Path, *more: str, device: str = "cpu") -> list[str]:
    paths = ["--jobs", str(folder / "jobs.jsonl"), "--out", str(folder / "out.jsonl")]
    return [sys.executable, "-m", "judge.bench", "--device", device, *paths, *more]


def called(folder: Path, *more: str, device: str = "cpu") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command(folder, *more, device=device), cwd=ROOT, capture_output=True, text=True, timeout=200, check=False
    )


BAKED = candidate("print(x.shape); y = self.right(x); return y if x.shape[-1] == 64 else y * 2")


@pytest.mark.bench
@pytest.mark.parametrize("device", ["cpu", "interpreter"])
def test_jobs_are_judged_and_signed_without_django_and_sealed_cases_decide_untold(tmp_path, device) -> None:
    key = make_key(tmp_path / "lab.key", "lab")
    jobs = {
        "right": job("right", timing=device == "interpreter", beat=float("inf")),
        "wrong": job("wrong", candidate("return torch.zeros_like(x)"), timing=False),
    }
    if device == "interpreter":  # has no torch.compile to wait for
        jobs["baked"] = job("baked", BAKED)
    job_file(tmp_path, *(job_line(one, nonce=f"n-{name}", key=key) for name, one in jobs.items()))
    done = called(tmp_path, "--key", str(tmp_path / "lab.key"), device=device)
    assert done.returncode == 0, done.stderr
    told = (tmp_path / "out.jsonl").read_text()
    back = {line.id: line for line in (read_outcome(text.encode(), {"lab": key}) for text in told.splitlines())}
    verdicts = {name: (line.outcome.verdict, line.outcome.reason) for name, line in back.items()}
    assert (verdicts["right"][0], verdicts["wrong"][0]) == (Verdict.PASS, Verdict.WRONG)
    assert verdicts.get("baked", (Verdict.WRONG, "audit.sealed_case")) == (Verdict.WRONG, "audit.sealed_case")
    assert set(verdicts) == set(jobs) and {line.fingerprint["kind"] for line in back.values()} == {device}
    assert "torch" in back["right"].fingerprint["toolchain"] and back["right"].outcome.environment["sandbox"]
    assert not tells_sealed(done.stderr + told)


@pytest.mark.bench
def test_ctrl_c_ends_the_run_with_its_children_and_it_goes_on_later(tmp_path) -> None:
    hang = candidate("time.sleep(60)")
    job_file(tmp_path, job_line(job("first", timing=False), nonce="1"), job_line(job("hangs", hang), nonce="2"))
    process = subprocess.Popen(command(tmp_path), cwd=ROOT, stderr=subprocess.PIPE, text=True, start_new_session=True)
    out = tmp_path / "out.jsonl"
    deadline = time.monotonic() + 120
    while not (out.exists() and out.read_bytes().count(b"\n")) and time.monotonic() < deadline:
        time.sleep(0.05)
    time.sleep(0.5)  # into the second job; nothing depends on how far
    children = descendants(process.pid)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=300)
    assert process.returncode == 130 and "same command to continue" in said
    assert children and not any(Path(f"/proc/{pid}").exists() for pid in children)
    assert json.loads(out.read_text())["id"] == "first"
    job_file(
        tmp_path, job_line(job("first", timing=False), nonce="1"), job_line(job("last", SAME, timing=False), nonce="3")
    )
    assert called(tmp_path).returncode == 0
    assert [json.loads(line)["id"] for line in out.read_text().splitlines()] == ["first", "last"]


def descendants(pid: int) -> set[int]:
    found: set[int] = set()
    try:
        own = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        return found
    for child in map(int, own):
        found |= {child} | descendants(child)
    return found


def test_what_cannot_be_used_is_said_before_anything_starts(tmp_path) -> None:
    job_file(tmp_path, signed("a"))
    (tmp_path / "open.key").write_text("{}")
    os.chmod(tmp_path / "open.key", 0o644)  # noqa: PTH101
    for more, said in (
        (("--key", str(tmp_path / "open.key")), "chmod 600"),
        (("--key", str(tmp_path / "none.key")), "cannot be read"),
        (("--min-sandbox", "landlok"), "unknown sandbox layers"),
    ):
        done = called(tmp_path, *more)
        assert done.returncode == 2 and said in done.stderr, done.stderr
    assert called(tmp_path, device="cuda:7").returncode == 2
    assert "neither interpreter nor cuda:N" in called(tmp_path, device="gpu").stderr
    assert not (tmp_path / "out.jsonl").exists() or not (tmp_path / "out.jsonl").read_bytes()


def test_a_cache_that_cannot_be_written_is_named_with_the_option(tmp_path, monkeypatch) -> None:
    """As where another account runs it, or one without a home."""
    options = Namespace(device="interpreter", target=None, min_sandbox="rlimits", cache=Path("/proc/none/cache"))
    with pytest.raises(ValueError, match=r"/proc/none/cache cannot be made .*--cache"), batch.bench_of(options):
        pass
    options.cache = tmp_path
    monkeypatch.setattr(batch.os, "access", lambda path, mode: path != tmp_path)
    with pytest.raises(ValueError, match=r"this account cannot write .*--cache"), batch.bench_of(options):
        pass


def test_a_machine_that_cannot_judge_a_known_kernel_writes_no_outcome(tmp_path, monkeypatch, capsys) -> None:
    def prove(bench: object, record: Path) -> None:
        assert record == tmp_path / "cache" / "proven.json"
        raise JudgeError("this machine cannot judge now: a known right kernel ended crashed")

    monkeypatch.setattr(batch, "Bench", lambda *_, **__: nullcontext(FakeBench()))
    monkeypatch.setattr(batch, "prove", prove)
    monkeypatch.setattr(batch.signal, "signal", lambda *_: None)
    mask = os.umask(0o022)
    try:
        jobs = job_file(tmp_path, signed("a"))
        out = tmp_path / "out.jsonl"
        assert (
            batch.main(
                ["--device", "interpreter", "--jobs", str(jobs), "--out", str(out), "--cache", f"{tmp_path}/cache"]
            )
            == batch.UNUSABLE
        )
    finally:
        os.umask(mask)
    assert out.read_bytes() == b"" and "cannot judge now" in capsys.readouterr().err
