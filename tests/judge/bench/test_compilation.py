"""What became of compiling beside an interpreter: all of it, not all of it and why, or the candidate's fault."""

from __future__ import annotations

import pytest

from judge.bench.deciding.compilation import Compiled, compiled
from judge.bench.exchange.contact import SubjectFailed
from judge.bench.judging.completion import Ended
from judge.values import Verdict
from tests.judge.replies import KERNEL, TUNED, forwarded


class Recorder:
    """Answers with a reply, or fails."""

    def __init__(self, said: object) -> None:
        self.said = said

    def ask(self, question: object) -> tuple[object, None]:
        if isinstance(self.said, Exception):
            raise self.said
        return self.said, None


@pytest.mark.parametrize(
    ("kind", "reason"),
    [("load", "compile.incomplete"), ("exception", ""), ("bounds", ""), ("unsupported", "")],
)
def test_what_keeps_it_from_being_complete_is_told_and_no_fault(kind, reason):
    found = compiled(Recorder(SubjectFailed("record", kind, "forward", "it looked at values", reason)), None)
    assert found == Compiled("incomplete: it looked at values") and found.missing == "it looked at values"


@pytest.mark.parametrize(("kind", "verdict"), [("timeout", Verdict.TIMED_OUT), ("died", Verdict.CRASHED)])
def test_a_process_that_comes_to_no_end_is_the_candidates_fault(kind, verdict):
    with pytest.raises(Ended) as caught:
        compiled(Recorder(SubjectFailed("record", kind, "forward", "no end")), None)
    assert (caught.value.verdict, caught.value.stage) == (verdict, "compile")


def test_kernels_codes_and_what_autotuners_must_take_are_told():
    unchanged = TUNED | {"kernel": "same", "chosen": TUNED["first"]}
    reply = forwarded(kernels=[KERNEL], codes=[["c0de", "k"]], tuned=[TUNED, unchanged, TUNED | {"chosen": ""}])
    found = compiled(Recorder(reply), None)
    assert (found.said, found.missing, found.codes) == ("complete", "", (("c0de", "k"),))
    assert [row.name for row in found.kernels] == ["k"]
    assert found.choices == ({"kernel": "k", "key": "(64,)", "config": "BLOCK: 64"},)


def test_notes_of_the_recorder_are_what_is_missing():
    assert compiled(Recorder(forwarded(notes=["forward reads values back", "twice"])), None).missing == (
        "forward reads values back; twice"
    )
