"""What a candidate says of a larger case is measured by what the reference needs there. Starts no child."""

from __future__ import annotations

import math
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from judge.bench.audit import excuses
from judge.bench.audit.excuses import ROOM_BYTES, is_excused
from judge.bench.audit.setting import Usual
from judge.bench.exchange.contact import SubjectFailed
from tests.judge.audit_setting import Audited
from tests.judge.replies import counted

GB = 1 << 30


def asked(elements: int) -> Any:
    return SimpleNamespace(tensors=lambda: [torch.empty(elements, device="meta")], state={}, inputs=[], seed=0)


def setting(usual: int = 100, *, device: str = "cuda:0", seconds: float = 0.01, accesses: int = 0, **given: Any) -> Any:
    assignment = SimpleNamespace(payload={"stage_s": 20.0})
    usually = Usual(asked(usual), seconds, accesses)
    return Audited(
        usual=usually, device=device, assignment=assignment, reference=None, **{"interprets": False, **given}
    )


def excused(kind: str, one: Any, elements: int = 1000) -> bool:
    return is_excused(one, SubjectFailed("sealed#1", kind, "forward", ""), SimpleNamespace(), asked(elements))


@pytest.fixture
def needs(monkeypatch):
    """What the reference needs on the case: bytes, seconds, and its work beside the evaluated case's."""
    found = SimpleNamespace(bytes=0, seconds=0.0, work=10.0, free=100 * GB)
    monkeypatch.setattr(excuses, "_reference_bytes", lambda *_: found.bytes)
    monkeypatch.setattr(excuses, "_reference_s", lambda *_: found.seconds)
    monkeypatch.setattr(excuses, "_more_work", lambda *_: found.work)
    monkeypatch.setattr(excuses.gpu, "free_bytes", lambda device: found.free)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: SimpleNamespace(total_memory=100 * GB))
    return found


@pytest.mark.parametrize(("bytes_", "free", "verdict"), [(GB, 100, False), (13 * GB, 100, True), (GB, 4, True)])
def test_memory_counts_where_a_multiple_of_the_references_is_not_to_be_had(needs, bytes_, free, verdict):
    """Half of the GPU is the candidate's: 50 GiB."""
    needs.bytes, needs.free = bytes_, free * GB
    assert excused("oom", setting()) is verdict
    assert not excused("oom", setting(device="cpu")), "the referee has answered under the same limit"


def test_a_small_reference_leaves_room_of_its_own(needs):
    needs.bytes, needs.free = 1 << 10, ROOM_BYTES
    assert excused("oom", setting())
    needs.free = ROOM_BYTES + (1 << 20)
    assert not excused("oom", setting())


def test_time_counts_where_a_hundred_times_the_references_is_more_than_the_limit(needs):
    needs.seconds = 0.19
    assert not excused("timeout", setting())
    needs.seconds = 0.21
    assert excused("timeout", setting())


def test_interpreted_kernels_have_their_own_pace(needs):
    slow = setting(device="cpu", interprets=True, seconds=1.0, accesses=1000)
    assert excused("timeout", slow), "four times a second, and ten times the work"
    needs.work = 4.0
    assert not excused("timeout", slow)


def test_sleeping_in_every_call_makes_no_pace(needs):
    assert not excused("timeout", setting(device="cpu", interprets=True, seconds=15.0, accesses=36))
    assert Usual(asked(1), 0.01, 10**6).pace_s == 0.01


def test_a_case_of_about_the_usual_size_is_no_excuse(needs):
    needs.bytes, needs.seconds = 90 * GB, 15.0
    for kind in ("oom", "timeout"):
        assert not excused(kind, setting(), elements=200)
        assert excused(kind, setting(), elements=201)
        assert not excused("exception", setting())
    assert excused("too_large", setting(), elements=1)


@pytest.mark.parametrize("refusal", [MemoryError(), RuntimeError("CUDA out of memory")])
def test_what_the_reference_does_not_get_excuses_everybody(needs, monkeypatch, refusal):
    def refuses(*_):
        raise refusal

    monkeypatch.setattr(excuses, "_reference_bytes", refuses)
    assert excused("oom", setting())


def test_the_usual_case_is_told_by_the_contact_and_the_counts():
    rounds: Any = SimpleNamespace(contact=SimpleNamespace(quickest_s=0.5))
    row = replace(counted("k"), accesses=5)
    reply: Any = SimpleNamespace(traffic=(row, row))
    usual = Usual.of(rounds, asked(1), reply)
    assert (usual.seconds, usual.accesses) == (0.5, 10)
    assert Usual.of(rounds, asked(1), SimpleNamespace(traffic=None)).accesses == 0  # type: ignore[arg-type]


def test_work_is_what_grows_most():
    def reference(width: int) -> tuple[Any, Any]:
        layer, inputs = torch.nn.Linear(width, width, bias=False), [torch.randn(4, width)]
        within = SimpleNamespace(inside=lambda place: torch.no_grad())
        one = SimpleNamespace(model=layer, load=lambda state: None, whereabouts=within)
        return one, SimpleNamespace(inputs=inputs, state={})

    small, question = reference(32)
    one: Any = SimpleNamespace(reference=small, usual=Usual(question, math.inf, 0))
    assert excuses._more_work(one, *reference(320)) == pytest.approx(100.0, rel=0.05)
    assert excuses._more_work(one, small, question) == 1.0
