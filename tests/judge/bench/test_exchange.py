"""What the referee sees of an arena that a subject's device cannot use in place."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import torch

from judge.bench.device import gpu
from judge.bench.exchange import arenas as exchange
from judge.bench.exchange.arenas import PATTERN, Arena, Arenas, Slot, host_arena, open_host_arena, plan
from judge.bench.exchange.nested import NotCarried, TensorMeta, bare, packed
from judge.bench.processes.child import Assignment
from judge.bench.subjects.subject import Subject

SIZE = 1 << 16
FLOATS = [torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.float8_e5m2, torch.float8_e4m3fn]
IPC = {"kind": "ipc", "bytes": 64, "handle": ""}


class Copied(Arena):
    """As on a device that only takes copies: what is fetched shares nothing with the slot."""

    @property
    def shared_in_place(self) -> bool:
        return False

    def fetch(self, slot: Slot) -> torch.Tensor:
        return self.view(slot).clone()


def changes(x: torch.Tensor) -> torch.Tensor:
    out = x + 1
    x.zero_()
    return out


def changes_shape_too(x: torch.Tensor) -> torch.Tensor:
    out = x + 1
    x.zero_().unsqueeze_(0)
    return out


@pytest.mark.parametrize(
    ("model", "left"),
    [(lambda x: x + 1, 3.0), (changes, 0.0), (changes_shape_too, 0.0)],
    ids=["keeps", "changes", "changes shape too"],
)
@pytest.mark.parametrize("kind", [Arena, Copied])
def test_a_changed_input_is_seen_in_every_kind_of_arena(tmp_path: Path, kind, model, left) -> None:
    arena, fd = host_arena(SIZE, "cpu")
    theirs = open_host_arena(fd, SIZE, "cpu")
    os.close(fd)
    given = torch.full((4, 8), 3.0)
    slots, _ = plan([TensorMeta.of(given)] * 2)
    arena.put(slots[0], given)
    job = Assignment("subject", {"mode": "run", "policy": {}}, None, [], tmp_path, "cpu", "sm_90", None, {})
    subject = Subject(job, None)
    subject.arena = kind(theirs.memory, "cpu", "host-copies")
    subject.arena.buffer = theirs.buffer
    subject.model = model
    command = {"args": packed([given])[0], "slots": [slots[0].to_json()], "out": [slots[1].to_json()]}
    assert subject._forward({**command, "seed": 1})["stored"]
    assert torch.equal(arena.view(slots[1]), given + 1)
    assert torch.equal(arena.view(slots[0]), torch.full((4, 8), left))


def test_memory_that_is_lent_again_is_clean_before_it_is_offered(monkeypatch) -> None:
    """A device fills it in its own time; the next child may look at once."""
    memory = torch.zeros(64, dtype=torch.uint8)
    monkeypatch.setattr(exchange, "offer_arena", lambda size, device, in_place: (Arena(memory, device, "ipc"), IPC, ()))
    waited: list[tuple[str, bool]] = []
    monkeypatch.setattr(exchange, "settle", lambda device: waited.append((device, bool((memory == PATTERN).all()))))
    arenas = Arenas()
    first, *_ = arenas.offer(64, "cuda:0", in_place=True)
    memory.fill_(7)
    arenas.back()
    second, *_ = arenas.offer(32, "cuda:0", in_place=True)
    assert second is first and waited == [("cuda:0", True)]


def test_between_the_elements_of_a_tensor_with_gaps_lie_more_of_its_elements() -> None:
    arena, fd = host_arena(SIZE, "cpu")
    os.close(fd)
    given = torch.empty(14, dtype=torch.int64)[::2].copy_(torch.arange(5, 12))
    (slot,), _ = plan([TensorMeta.of(given)])
    arena.fill_gaps(slot, given)
    arena.put(slot, given)
    flat = arena.memory[slot.offset : slot.offset + slot.meta.nbytes].view(torch.int64)
    assert torch.equal(arena.view(slot), given)
    assert bool((flat >= 5).all()) and bool((flat < 12).all())


@pytest.mark.parametrize("expanded", [True, False])
def test_an_expanded_tensor_stays_expanded_where_that_is_asked(expanded) -> None:
    arena, fd = host_arena(SIZE, "cpu")
    os.close(fd)
    given = torch.arange(4.0).reshape(4, 1).expand(3, 4, 5)
    (slot,), _ = plan([TensorMeta.given(given) if expanded else TensorMeta.of(given)])
    arena.put(slot, given)
    fetched = arena.fetch(slot)
    assert torch.equal(fetched, given)
    assert fetched.stride() == ((0, 1, 0) if expanded else (20, 5, 1))
    arena.give_back(slot, fetched)


@pytest.mark.parametrize(
    "given", [torch.arange(9.0).as_strided((3, 5), (1, 1)), torch.zeros(0, 3).expand(2, 0, 3)], ids=["slides", "empty"]
)
def test_one_that_overlaps_itself_otherwise_is_contiguous(given) -> None:
    assert TensorMeta.given(given) == TensorMeta.of(given)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_what_lies_behind_a_tensor_is_no_number(dtype) -> None:
    """A zero beside it does not cancel it, as it would some small number."""
    band = torch.full((8,), PATTERN, dtype=torch.uint8).view(dtype)
    assert bool((band.float() * 0).isnan().all())


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda:0", marks=pytest.mark.cuda)])
def test_what_is_fetched_shares_neither_storage_nor_versions_with_other_slots(device) -> None:
    """Else a write to an output would count as a change of every input: a cache by version would never be caught."""
    if device != "cpu" and not torch.cuda.is_available():
        pytest.skip("no CUDA device here")
    arena, fd = host_arena(SIZE, "cpu")
    os.close(fd)
    if device != "cpu":
        arena = Arena(torch.zeros(SIZE, dtype=torch.uint8, device=device), device, "ipc")
    given = torch.arange(12.0, device=device).reshape(3, 4)[:, ::2]
    slots, _ = plan([TensorMeta.of(given)] * 2)
    arena.put(slots[0], given)
    first, other = (arena.fetch(slot) for slot in slots)
    before = first._version
    other.fill_(7.0)
    arena.put(slots[1], other)
    again = arena.fetch(slots[0])
    assert (first._version, again._version) == (before, before)
    assert again.data_ptr() == first.data_ptr() and torch.equal(again, given)
    assert first.untyped_storage().nbytes() == slots[0].meta.nbytes


class Driver:
    """Answers an allocation with a number of CUDA's driver."""

    def __init__(self, answer: int) -> None:
        self.answer = answer

    def cuMemAlloc_v2(self, *_: object) -> int:
        return self.answer


@pytest.mark.parametrize(("answer", "error"), [(2, torch.OutOfMemoryError), (801, gpu.IpcRefused)])
def test_too_little_memory_is_not_taken_for_a_driver_that_does_not_share(monkeypatch, answer, error) -> None:
    """Else a full GPU would send everything through the host, and a burst would be too much for that."""
    stream = type("Stream", (), {"synchronize": lambda self: None})()
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device: stream)
    monkeypatch.setattr(gpu, "_driver", lambda: Driver(answer))
    with pytest.raises(error):
        gpu.allocate_shared(1 << 20, "cuda:0")


def test_what_a_model_returned_is_taken_without_code_of_its_own():
    class Late(tuple):
        def __iter__(self):
            raise AssertionError("computed late")

    tensor = torch.ones(3)
    tensor.detach = lambda: torch.zeros(3)
    made = bare({"a": Late((tensor, [torch.nn.Parameter(tensor)])), "b": None})
    ((first, (second,)), nothing) = made.values()
    assert type(made["a"]) is tuple and type(second) is torch.Tensor and nothing is None
    assert first.data_ptr() == second.data_ptr() == tensor.data_ptr() and first.detach().sum() == 3
    endless: list[object] = []
    endless.append(endless)
    with pytest.raises(NotCarried, match="nested too deeply"):
        packed(bare(endless))
