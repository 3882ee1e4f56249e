"""What the deciding children do around a verdict: who hears of a failure, what stays, what is signed. No child."""

from __future__ import annotations

import os
from contextlib import contextmanager, nullcontext
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from judge.bench.compiling.report import CompileReport
from judge.bench.deciding import compiler, referee_cache
from judge.bench.deciding import referee as refereeing
from judge.bench.deciding.referee import Referee
from judge.bench.deciding.referee_cache import RefereeCache
from judge.bench.exchange import seal
from judge.bench.exchange.wire import WireClosed
from judge.bench.foreign.whereabouts import DeviceLost
from judge.bench.judging.completion import Ended
from judge.bench.processes.child import Assignment
from judge.bench.processes.kept_referees import AHEAD_S
from judge.bench.timing.modelled import fixed_seed
from judge.values import JudgeError, Verdict
from tests.judge.replies import forwarded


class Boss:
    """The runner's end: what was sent to it, and what it sends next."""

    def __init__(self, *payloads: object) -> None:
        self.sent, self.payloads, self.waits = [], list(payloads), []
        self.send = self.sent.append

    def fileno(self) -> int:
        return 77

    def receive(self, timeout):
        self.waits.append(timeout)
        payload = self.payloads.pop(0)
        if isinstance(payload, Exception):
            raise payload
        return payload

    def take_fds(self):
        return [5, 6]


def assignment(boss: Boss, device: str = "cpu", **payload: object) -> Assignment:
    return Assignment("referee", payload, boss, [1, 2], Path("/nowhere"), device, "sm_90", None, None)


# -- one candidate after the other --


def lived(monkeypatch, *evaluations: object) -> tuple[list[Boss], list[object]]:
    """A referee's life: each evaluation stays, goes or raises. Bosses, and who was judged and waited at."""
    rows = [assignment(Boss(), number=n) for n in range(len(evaluations))]
    left, seen, caches = list(zip(rows, evaluations, strict=True)), [], []

    def judged(one, cache):
        seen.append(("judge", one.payload["number"]))
        caches.append(cache)
        row, what = left.pop(0)
        assert row is one
        if isinstance(what, Exception):
            raise what
        return what

    def following(cache, one):
        seen.append(("wait", one.payload["number"]))
        return left[0][0] if left else None

    monkeypatch.setattr(refereeing, "_judged", judged)
    monkeypatch.setattr(RefereeCache, "next", following)
    fault = next((what for what in evaluations if isinstance(what, Exception)), None)
    with pytest.raises(type(fault)) if fault is not None else nullcontext():
        refereeing.run(rows[0])
    assert len({id(cache) for cache in caches}) == 1
    return [row.boss for row in rows], seen


def test_a_referee_judges_as_long_as_it_may_stay(monkeypatch):
    bosses, seen = lived(monkeypatch, True, True)
    assert seen == [("judge", 0), ("wait", 0), ("judge", 1), ("wait", 1)]
    assert [boss.sent for boss in bosses] == [[], []]
    assert lived(monkeypatch, False, True)[1] == [("judge", 0)], "one that may not stay waits for nobody"


def test_a_referee_that_gives_up_says_why_to_who_asked_last_and_ends(monkeypatch):
    words = "".join(f"{n:04} " for n in range(200))
    bosses, seen = lived(monkeypatch, True, JudgeError(words), True)
    assert [boss.sent for boss in bosses] == [[], [{"gave_up": words[:600]}], []]
    assert seen[-1] == ("judge", 1)
    (boss,), _ = lived(monkeypatch, ValueError("a bug"))
    assert boss.sent == [], "no reason is made up for what nobody foresaw"


@pytest.mark.parametrize(
    ("given", "stays", "scarce"),
    [
        ({}, True, False),
        ({"stay": False}, False, False),
        ({"tidy": False}, False, False),
        ({"audited": True}, False, False),
        ({"free": 0.29}, False, True),
        ({"free": 0.3}, True, False),
        ({"free": 0.1, "lost": True}, True, False),
    ],
)
def test_the_signed_verdict_says_who_stays(monkeypatch, given, stays, scarce):
    boss, subjects = Boss(), object()
    one = assignment(boss, policy={}, key="ab", nonce="n", stay=given.get("stay", True))
    outcome = SimpleNamespace(to_json=lambda: {"verdict": "pass"})
    judge = SimpleNamespace(
        outcome=lambda: outcome, has_audited=given.get("audited", False), subjects=subjects
    )  # fmt: skip
    tidied = []
    cache = SimpleNamespace(
        whereabouts=SimpleNamespace(device_lost=lambda: given.get("lost", False)), kept={"eager": 1},
        tidy=lambda what: tidied.append(what) or given.get("tidy", True),
    )  # fmt: skip
    monkeypatch.setattr(refereeing.Policy, "from_json", lambda row: "the policy")
    monkeypatch.setattr(refereeing, "neutral", lambda policy: boss.sent.append(policy))
    monkeypatch.setattr(refereeing, "Referee", lambda *row: boss.sent.append(row) or judge)
    monkeypatch.setattr(refereeing.gpu, "free_share", lambda device: given.get("free", 0.5))
    assert refereeing._judged(one, cache) is stays
    policy, row, said = boss.sent
    assert (policy, row) == ("the policy", (one, cache)), "switches are put right before anything of it runs"
    assert said["stays"] == (["referee", "eager"] if stays else []) and said["scarce"] is scarce
    assert seal.verified({"verdict": "pass"}, said["mac"], key="ab", nonce="n")
    assert tidied == ([subjects] if one.payload["stay"] else [])


# -- which question, which time --


def test_where_traffic_is_counted_every_candidate_is_asked_the_same_first():
    drawn: list[object] = []
    rounds = SimpleNamespace(questions=SimpleNamespace(first=lambda seed: drawn.append(seed) or object()))
    cache = SimpleNamespace(modelled=None)
    modelled = SimpleNamespace(interprets=True, cache=cache, payload={"source": "the problem"})
    question = Referee._first(modelled, rounds)
    assert Referee._first(modelled, rounds) is question is cache.modelled
    assert drawn == [fixed_seed("the problem")]
    measured = SimpleNamespace(interprets=False, cache=cache, payload={"source": "the problem"})
    assert Referee._first(measured, rounds) is not Referee._first(measured, rounds)
    assert drawn[1:] == [None, None] and cache.modelled is question


def timed(monkeypatch, *, interprets: bool) -> object:
    """What `_timing` came to."""
    one = SimpleNamespace(
        weighted=None,
        _to_be_audited=lambda: False,
        interprets=interprets,
        timed=None,
        assignment=SimpleNamespace(target="sm_90"),
        environment={"baselines": {}},
    )
    one._measure = lambda *row: setattr(one, "timed", ("measured", *row))
    monkeypatch.setattr(refereeing, "modelled", lambda *row: ("modelled", *row))
    reference = SimpleNamespace(no_alternatives=lambda on_gpu: {})
    rounds = SimpleNamespace(settled=lambda question: question, to_time=lambda question: question)
    Referee._timing(one, reference, rounds, "first", forwarded(traffic=[]))
    assert one.timed[1] is reference
    return one.timed[0]


def test_time_is_modelled_where_kernels_are_interpreted_and_measured_elsewhere(monkeypatch):
    assert (timed(monkeypatch, interprets=True), timed(monkeypatch, interprets=False)) == ("modelled", "measured")


# -- between two evaluations --


def cache_of(boss: Boss, monkeypatch, device: str = "cpu", draw=None) -> tuple[RefereeCache, list[object]]:
    cache, did = RefereeCache(assignment(boss, device)), []

    def drawing(fd):
        did.append(("draw", fd, list(boss.waits)))
        if draw is not None:
            raise draw

    monkeypatch.setattr(cache, "_draw_until", drawing)
    monkeypatch.setattr(cache, "_give_back", lambda: did.append("give back"))
    return cache, did


@pytest.mark.parametrize("device", ["cpu", "cuda:0"])
def test_the_next_assignment_brings_its_own_payload_and_links(monkeypatch, device):
    boss = Boss({"number": 2})
    cache, did = cache_of(boss, monkeypatch, device)
    first = assignment(boss, device, number=1)
    found = cache.next(first)
    assert found is not None and (found.payload, found.links) == ({"number": 2}, [5, 6])
    assert (found.boss, found.folder, found.device, found.target) == (boss, first.folder, device, "sm_90")
    assert boss.waits == [None], "it waits as long as it takes"
    assert did == (["give back"] if device == "cpu" else ["give back", ("draw", 77, [])]), "memory first, then draws"


@pytest.mark.parametrize(
    "fault", [WireClosed(), Ended(Verdict.WRONG, "a", "b.c", ""), DeviceLost("the import", ""), JudgeError("no")]
)
def test_a_referee_that_cannot_go_on_waits_for_nobody_and_says_nothing(monkeypatch, fault):
    waiting, drawing = Boss(fault), Boss({})
    assert cache_of(waiting, monkeypatch)[0].next(assignment(waiting)) is None
    cache, did = cache_of(drawing, monkeypatch, "cuda:0", draw=fault)
    assert cache.next(assignment(drawing, "cuda:0")) is None
    assert len(did) == 2 and drawing.waits == [] and waiting.sent == drawing.sent == []


@pytest.mark.parametrize(("device", "hoarded", "freed"), [("cuda:0", 0, 0), ("cuda:0", 1, 1), ("cpu", 1, 0)])
def test_only_a_hoard_of_freed_memory_goes_back_to_the_gpu(monkeypatch, device, hoarded, freed):
    emptied: list[int] = []
    monkeypatch.setattr(torch.cuda, "memory_reserved", lambda: (3 << 30) + hoarded)
    monkeypatch.setattr(torch.cuda, "memory_allocated", lambda: 2 << 30)
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: emptied.append(1))
    monkeypatch.setattr(referee_cache.gc, "collect", lambda: None)
    RefereeCache(assignment(Boss(), device))._give_back()
    assert len(emptied) == freed


@pytest.mark.parametrize(
    ("sizes", "given", "draws"),
    [
        ([5, 5], {}, 3),
        ([15, 1, 1, 1], {}, 2),
        ([16, 1], {}, 1),
        ([1, 1], {"left": 300}, 3),
        ([1, 1], {"left": 299}, 0),
        ([1, 1], {"free": False}, 0),
        ([1, 1], {"called": True}, 0),
    ],
    ids=["all drawn", "as much as allowed", "more than that", "just room", "no room", "a busy GPU", "somebody calls"],
)  # fmt: skip
def test_questions_are_drawn_ahead_while_there_is_room_and_nobody_calls(monkeypatch, sizes, given, draws):
    asked, left = [], [*sizes, 0]

    @contextmanager
    def at_once():
        yield given.get("free", True)

    questions = SimpleNamespace(draw_ahead=lambda: asked.append(1) or left.pop(0))
    monkeypatch.setattr(referee_cache, "Questions", lambda reference: questions)
    monkeypatch.setattr(referee_cache, "GpuLock", lambda fd: SimpleNamespace(shared_at_once=at_once))
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda: (given.get("left", 900), 1000))
    cache = RefereeCache(assignment(Boss()))
    cache.reference = SimpleNamespace(lean=False)
    ours, theirs = os.pipe()
    if given.get("called"):
        os.write(theirs, b"x")
    cache._draw_until(ours)
    assert len(asked) == draws and cache.questions is questions
    for end in (ours, theirs):
        os.close(end)


def test_drawing_ahead_ends_before_the_referee_is_stopped(monkeypatch):
    now, asked = [0.0], []

    def draw_ahead():
        asked.append(now[0])
        now[0] += 0.3
        return len(asked) < 20

    at_once = SimpleNamespace(shared_at_once=lambda: nullcontext(True))
    monkeypatch.setattr(referee_cache, "Questions", lambda reference: SimpleNamespace(draw_ahead=draw_ahead))
    monkeypatch.setattr(referee_cache, "GpuLock", lambda fd: at_once)
    monkeypatch.setattr(referee_cache, "time", SimpleNamespace(monotonic=lambda: now[0]))
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda: (1 << 36, 1 << 36))
    cache = RefereeCache(assignment(Boss()))
    cache.reference = SimpleNamespace(lean=False)
    ours, theirs = os.pipe()
    cache._draw_until(ours)
    assert len(asked) == 3 and asked[-1] < AHEAD_S
    for end in (ours, theirs):
        os.close(end)


# -- the compile stage --


def test_a_compile_report_is_made_without_computing_and_signed(monkeypatch):
    boss = Boss()
    one = assignment(boss, key="cd", nonce="once")
    report = CompileReport(Verdict.COMPILED_ONLY, loads=True, notes=("a note",))

    def made():
        assert (torch.ones(1 << 17) + 2.0)[0].item() == 0.0, "large tensors have no values"
        return report

    monkeypatch.setattr(compiler, "CompileJudge", lambda given: SimpleNamespace(report=made) if given is one else None)
    compiler.run(one)
    (said,) = boss.sent
    assert said["verdict"]["notes"] == ["a note"] and said["verdict"]["loads"] is True
    assert seal.verified(said["verdict"], said["mac"], key="cd", nonce="once")
    assert not seal.verified(said["verdict"], said["mac"], key="cd", nonce="twice")
