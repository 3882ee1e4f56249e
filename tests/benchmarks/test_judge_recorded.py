"""`judge_recorded`: a recorded search goes through the judge, beside what was published."""

from __future__ import annotations

import json
from io import StringIO

import pytest
from django.core.management import CommandError, call_command

from judge.values import Policy
from search.interchange.recording import RecordingRejected
from tests.benchmarks.judge_recorded import Command
from tests.benchmarks.recorded.entries import Published
from tests.benchmarks.recorded.published import AS_PUBLISHED, recorded_entries
from tests.search.recorded import packed, step

RIGHT = """
import torch, triton, triton.language as tl

@triton.jit
def doubled(x, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + at, mask=at < n)
    tl.store(y + at, LINE, mask=at < n)

class ModelNew(torch.nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        doubled[(triton.cdiv(x.numel(), 64),)](x, y, x.numel(), BLOCK=64)
        return y
"""
GOOD = RIGHT.replace("LINE", "tl.maximum(v, 0.0) * 2")
BROKEN = RIGHT.replace("LINE", "tl.no_such_thing(v)")


@pytest.fixture
def recording(tmp_path):
    """Three kernels, one of them twice; the third was published as correct and cannot compile."""
    failed = {"score": {"compiled": True, "correct": False}, "error": "triton.compiler.errors.CompilationError: no"}
    path = tmp_path / "tiny.json"
    path.write_bytes(
        packed(
            [
                step(1, 0, code=GOOD),
                step(2, 1, code=f"# again\n{GOOD}", fast_p=0.9),
                step(3, 1, code=BROKEN + "\nother = 1\n", **failed),
                step(4, 1, code=BROKEN),
            ]
        )
    )
    return path


def ask(*arguments: object) -> tuple[str, str]:
    out, progress = StringIO(), StringIO()
    call_command(Command(), *map(str, arguments), stdout=out, stderr=progress)
    return out.getvalue(), progress.getvalue()


def test_entries_carry_what_was_published_and_the_policy(recording):
    found = recorded_entries([recording], kind="cuda", policy=AS_PUBLISHED)
    assert [(one.id, one.published) for one in found] == [
        ("tiny#1", Published.FASTER),
        ("tiny#3", Published.COMPILE_ERROR),
        ("tiny#4", Published.FASTER),
    ]
    assert found[0].again == (Published.CORRECT,)
    assert found[0].spec.policy == Policy(equal_seeding=True)
    recording.write_bytes(b"{}")
    with pytest.raises(RecordingRejected, match=r"tiny\.json: There is no list"):
        recorded_entries([recording], kind="cuda")


@pytest.mark.bench
def test_verdicts_stand_beside_the_published_ones_and_a_second_run_knows_them(recording, tmp_path):
    rows = tmp_path / "rows.jsonl"
    out, progress = ask(recording, "--device", "compile:sm_90", "--out", rows)
    assert "3 kernels: 2 agrees, 1 differs, 0 undecided, 0 lost" in out
    assert "differs: 1 published as correct, faster, here compile_failed compile.error (tiny 1), such as tiny#4" in out
    assert "no_such_thing" in out and len(progress.splitlines()) == 3
    kept = rows.read_bytes()
    rows.write_bytes(b"".join(kept.splitlines(keepends=True)[:2]) + b'{"torn')  # killed while it wrote
    again, progress = ask(recording, "--device", "compile:sm_90", "--out", rows, "--json")
    assert len(progress.splitlines()) == 1 and len(rows.read_bytes().splitlines()) == 3
    document = json.loads(again)
    assert document["relations"] == {"agrees": 2, "differs": 1, "undecided": 0, "lost": 0}
    assert (document["device"], document["left"]) == ("compile:sm_90", 0)
    elsewhere = rows.read_text().replace("compile:sm_90", "cuda:5")  # a GPU that is not here
    rows.write_text(elsewhere)
    out, progress = ask(recording, "--device", "cuda:5", "--out", rows, "--report")
    assert "3 kernels: 2 agrees, 1 differs" in out and progress == "" and rows.read_text() == elsewhere


def test_mistakes_are_told_before_anything_starts(recording, tmp_path):
    for arguments, words in (
        (("--device", "cuda:7"), "There is no device 'cuda:7' here"),
        (("--device", "compile:sm_1"), "sm_1"),
        (("--device", "compile:sm_90", "--workers", "0"), "workers count from 1"),
        (("--device", "compile:sm_90", "--sample", "0"), "nothing was judged"),
    ):
        with pytest.raises(CommandError, match=words):
            ask(recording, *arguments)
    foreign = tmp_path / "notes.txt"
    foreign.write_text("mine\n")
    with pytest.raises(CommandError, match="line 1: not a row"):
        ask(recording, "--device", "compile:sm_90", "--out", foreign)
    assert foreign.read_text() == "mine\n"
