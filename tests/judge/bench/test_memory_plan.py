"""Large problems in little memory: the oracle in slices finds what the whole one finds, and far less is held."""

from __future__ import annotations

import gc
import math
import weakref
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from judge.bench.admission.every_question import questions as every_question
from judge.bench.admission.stages import _refusal
from judge.bench.deciding import memory_account as accounting
from judge.bench.deciding.memory_account import MemoryAccount
from judge.bench.device import memory
from judge.bench.exchange import parts
from judge.bench.exchange.arenas import Arena, Arenas
from judge.bench.exchange.contact import Deadline
from judge.bench.exchange.reports import MOST_CHILDREN
from judge.bench.foreign.loading import load_problem
from judge.bench.judging import subjects as subjects_of
from judge.bench.judging.asking import Question, Questions
from judge.bench.judging.comparison import fault_of
from judge.bench.judging.completion import Ended
from judge.bench.judging.correctness import Rounds
from judge.bench.judging.memory_plan import OWN, SLICES, WHOLE, MemoryPlan
from judge.bench.judging.precision import errors
from judge.bench.judging.reference import Reference
from judge.bench.judging.slices import answered
from judge.bench.judging.subjects import Subjects
from judge.bench.processes.inspection import LOOKS_EACH, MOST_LOOKS
from judge.bench.runner import Bench
from judge.values import DEFAULT_POLICY, Audit, Job, JudgeError, Limits, Outcome, ProblemSpec, Verdict
from tests.judge.rounds_bench import problem

SWISH = problem("v = x[0] * 0.5 + 1.0\nreturn v * torch.sigmoid(v)", inputs="torch.randn(6000)")
ROWS = {
    "element-wise": SWISH,
    "softmax": problem("return torch.softmax(x[0], -1)", inputs="torch.randn(300, 40)"),
    "scan along rows": problem("return x[0].cumsum(-1)", inputs="torch.randn(300, 40)"),
    "product": problem(
        "return x[0] @ self.w",
        inputs="torch.randn(300, 40)",
        init="self.w = torch.nn.Parameter(torch.linspace(-1, 1, 1200).reshape(40, 30))",
    ),
    "two inputs, two outputs": problem(
        "return x[0] + x[1], (x[0] * x[1]).sum(-1)", inputs="torch.randn(300, 40), torch.randn(300, 40)"
    ),
    "one input for all rows": problem("return x[0] * x[1]", inputs="torch.randn(300, 40), torch.randn(40)"),
    "in place": problem("x[0].mul_(0.3)\nreturn x[0] + 1", inputs="torch.randn(300, 40)"),
    "integers": problem("return x[0].argmax(-1)", inputs="torch.randn(300, 40)"),
    "16 bits": problem("return F.gelu(x[0])", inputs="torch.randn(300, 40).bfloat16()"),
}
JOINED = {
    "batch statistics": problem("return F.batch_norm(x[0], None, None, training=True)", inputs="torch.randn(300, 4)"),
    "scan down the columns": problem("return x[0].cumsum(0)", inputs="torch.randn(300, 40)"),
    "centred": problem("return x[0] - x[0].mean()", inputs="torch.randn(6000)"),
    "loss": problem("return F.mse_loss(x[0], x[1])", inputs="torch.randn(300, 40), torch.randn(300, 40)"),
    "place": problem("return x[0] + torch.arange(len(x[0])).unsqueeze(1)", inputs="torch.randn(300, 40)"),
    "turned": problem("return x[0].flip(0)", inputs="torch.randn(300, 40)"),
}


@pytest.fixture
def little(monkeypatch):
    """As if the device held a few copies only, and parts were small."""
    monkeypatch.setattr(memory, "free_bytes", lambda device: 200_000.0)
    monkeypatch.setattr(parts, "PART", 1000)


def asked(folder: Path, source: str) -> tuple[Reference, Question]:
    torch.manual_seed(3)
    reference = Reference(load_problem(source, None, folder), "cpu", DEFAULT_POLICY)
    return reference, Questions(reference).first(7)


@pytest.mark.parametrize("name", ROWS)
def test_rows_that_depend_on_nothing_else_are_answered_in_slices(tmp_path, little, name):
    reference, question = asked(tmp_path, ROWS[name])
    assert reference.lean and reference.oracle == SLICES
    assert all(target.slices is not None for target in question.expected.targets)


@pytest.mark.parametrize("name", JOINED)
def test_rows_that_depend_on_each_other_are_answered_whole(tmp_path, little, name):
    reference, question = asked(tmp_path, JOINED[name])
    assert reference.lean and reference.oracle == WHOLE and question.expected.fp64
    assert all(target.slices is None for target in question.expected.targets)


@pytest.mark.parametrize("name", ROWS)
def test_what_is_allowed_and_what_is_wrong_are_the_same_in_slices(tmp_path, monkeypatch, name):
    _, whole = asked(tmp_path, ROWS[name])
    monkeypatch.setattr(memory, "free_bytes", lambda device: 200_000.0)
    monkeypatch.setattr(parts, "PART", 1000)
    _, sliced = asked(tmp_path, ROWS[name])
    for one, other in zip(whole.expected.targets, sliced.expected.targets, strict=True):
        assert other.slices is not None and one.slices is None
        assert other.allowed.rms == pytest.approx(one.allowed.rms, rel=1e-6)
        assert other.allowed.largest == pytest.approx(one.allowed.largest, rel=1e-6)
        assert other.integer or other.best() == pytest.approx(one.best(), rel=1e-6)
        assert fault_of(other, one.same) is None is fault_of(one, one.same)
        for place in (0, one.same.numel() // 2, one.same.numel() - 1):  # the last one ends the last slice
            wrong = one.same.clone()
            wrong.view(-1)[place] += 3
            (mine, theirs) = (fault_of(target, wrong) for target in (one, other))
            assert (
                mine is not None
                and theirs is not None
                and (mine.reason, mine.verdict) == (theirs.reason, theirs.verdict)
            )
            assert str(place) in theirs.text or wrong.dim() > 1


def test_what_nobody_wrote_and_what_is_not_finite_is_told_in_parts(tmp_path, little):
    _, question = asked(tmp_path, SWISH)
    (target,) = question.expected.outputs
    wrong = target.same.clone()
    wrong[-1] = math.nan
    fault = fault_of(target, wrong)
    assert fault is not None and fault.reason == "value.nonfinite" and "1 of 6000" in fault.text


def test_dropping_a_question_keeps_layouts_and_limits_only(tmp_path, little):
    _, question = asked(tmp_path, ROWS["in place"])
    alive = weakref.ref(question.inputs[0].untyped_storage())
    limits, metas = question.expected.allowed, question.room()
    question.drop()
    gc.collect()
    assert alive() is None
    assert question.expected.allowed == limits and question.room() == metas
    assert all(tensor.is_meta for tensor in question.tensors())


def test_errors_of_parts_are_those_of_the_whole(monkeypatch):
    torch.manual_seed(0)
    for shape, shift in (((70, 50), 0.0), ((5000,), 1e4), ((3, 7, 11, 13), -5.0)):
        oracle = torch.randn(shape, dtype=torch.float64) + shift
        value = oracle + 1e-3 * torch.randn(shape)
        for special in (None, math.nan, math.inf):
            if special is not None:
                oracle.view(-1)[0] = value.view(-1)[0] = special
            monkeypatch.setattr(parts, "PART", 1 << 30)
            whole = errors(value, oracle)
            monkeypatch.setattr(parts, "PART", 400)
            found = errors(value, oracle)
            assert (found.rms, found.largest) == pytest.approx((whole.rms, whole.largest), rel=1e-6)
    value[-1, -1, -1, -1] = math.nan
    assert not errors(value, oracle).finite


def test_timed_calls_are_compared_with_an_answer_made_in_slices(tmp_path, little):
    reference, question = asked(tmp_path, ROWS["softmax"])
    whole = reference.outputs(question.inputs, 1)
    assert reference.learned is not None and reference.learned.cut == frozenset({0})
    for one, other in zip(whole, answered(reference, question.inputs, 1, reference.first), strict=True):
        assert torch.allclose(one, other, rtol=1e-6) and one.shape == other.shape


class Live(TorchDispatchMode):
    """Counts bytes of the tensors that were made in the block and still live; `peak` is the most."""

    def __init__(self) -> None:
        super().__init__()
        self.now = self.peak = 0
        self.known: set[int] = set()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        for leaf in tree_leaves(out):
            if isinstance(leaf, torch.Tensor) and not leaf.is_meta:
                storage = leaf.untyped_storage()
                if storage.data_ptr() and storage.data_ptr() not in self.known:
                    self._note(storage)
        return out

    def _note(self, storage: Any) -> None:
        at, size = storage.data_ptr(), storage.nbytes()
        self.known.add(at)
        self.now += size
        self.peak = max(self.peak, self.now)
        weakref.finalize(storage, self._gone, at, size)

    def _gone(self, at: int, size: int) -> None:
        self.known.discard(at)
        self.now -= size


def peak_of(folder: Path) -> int:
    """Bytes that one question and a comparison with it take at most, in units of its input."""
    size = 1 << 18
    source = SWISH.replace("6000", str(size))
    reference = Reference(load_problem(source, None, folder), "cpu", DEFAULT_POLICY)
    with Live() as live:
        question = Questions(reference).first(7)
        assert fault_of(question.expected.outputs[0], question.expected.same[0].clone()) is None
    return live.peak / (4 * size)


def test_a_lean_question_takes_little_more_than_the_reference_itself(tmp_path, monkeypatch):
    whole = peak_of(tmp_path)
    monkeypatch.setattr(memory, "free_bytes", lambda device: 16e6)
    monkeypatch.setattr(parts, "PART", 1 << 14)
    lean = peak_of(tmp_path)
    assert lean < 8 < whole, (lean, whole)


def test_what_does_not_fit_in_fp64_is_compared_in_its_own_type(tmp_path, little, monkeypatch):
    monkeypatch.setattr(Reference, "answer_in", lambda *row: None)
    reference, question = asked(tmp_path, JOINED["loss"])
    assert reference.oracle == OWN and not question.expected.fp64
    wrong = question.expected.same[0] * 1.01
    assert fault_of(question.expected.outputs[0], question.expected.same[0]) is None
    assert fault_of(question.expected.outputs[0], wrong) is not None


def test_a_plan_is_lean_only_where_copies_would_fill_the_device():
    sizes = {"inputs": 10, "outputs": 10, "state": 0, "forward": 30, "widened": 2}
    roomy = MemoryPlan(**sizes, room=1e4)
    assert not roomy.lean and not roomy.by_turns([0, 0]) and not MemoryPlan(**sizes, room=math.inf).lean
    tight = MemoryPlan(**sizes, room=150)
    assert tight.lean and tight.least == 110 <= tight.room and not tight.by_turns([0, 0])
    assert tight.by_turns([50, 0]), "one that takes more than the reference"
    assert tight.by_turns([0, 0, 0]), "the best so far takes part"
    assert MemoryPlan(**sizes, room=130).by_turns([0, 0])
    assert "0 MiB" in tight.words and tight.to_json()["least_bytes"] == 110


LIMITS = Limits(wall_s=300, stage_s=120, memory_mb=320)  # beside which copies of 8 MB are many
LARGE = {
    "slices": SWISH.replace("6000", str(1 << 21)),
    "whole": problem("v = x[0]\nreturn (v - v.mean(0)) / v.std(0)", inputs=f"torch.randn({1 << 17}, 16)"),
}
LAST = "out = super().forward(*x)\nout.view(-1)[-1] += {}\nreturn out"


def judged(bench: Bench, source: str, wrong: float) -> Outcome:
    """A candidate that adds `wrong` to the last element, judged and timed in little memory."""
    lines = "\n".join(f"        {line}" for line in LAST.format(wrong).splitlines())
    candidate = source.replace("class Model(", "class Known(") + (
        f"\n\nclass ModelNew(Known):\n    def forward(self, *x):\n{lines}\n"
    )
    job = Job("large", ProblemSpec(source), candidate, limits=LIMITS, beat=math.inf, timing=not wrong)
    return bench.evaluate(job)


@pytest.mark.parametrize("lean", [False, True])
def test_the_next_question_is_drawn_meanwhile_only_where_there_is_memory_for_both(monkeypatch, lean):
    did: list[str] = []

    def drawn():
        for number in (1, 2):
            did.append(f"draw {number}")
            yield number, SimpleNamespace(nbytes=8, family="given")

    rounds = Rounds.__new__(Rounds)
    rounds.reference = SimpleNamespace(policy=SimpleNamespace(equal_seeding=True), lean=lean)
    rounds.questions = SimpleNamespace(rounds=drawn, left_out=[])
    rounds.contact = SimpleNamespace(answer=lambda kind: None)
    rounds.telling = None
    monkeypatch.setattr(rounds, "tell", lambda question, poison: did.append("ask"))
    monkeypatch.setattr(rounds, "judge", lambda *given: did.append("judge"))
    for name in ("_note_facts", "_look_closer", "_done_with"):
        monkeypatch.setattr(rounds, name, lambda *given, **named: None)
    rounds._run(None, None, None)
    one = ["ask", "judge", "draw 2"] if lean else ["ask", "draw 2", "judge"]
    assert did == ["judge", "draw 1", *one, "ask", "judge"]


@pytest.mark.bench
@pytest.mark.parametrize("name", LARGE)
def test_a_large_problem_is_judged_in_little_memory(cpu_bench, name):
    right = judged(cpu_bench, LARGE[name], 0.0)
    assert right.verdict is Verdict.PASS and right.speedup is not None, right.message
    plan = right.environment["memory"]
    assert plan["lean"] and plan["oracle"] == (SLICES if name == "slices" else WHOLE)
    assert [case.family for case in right.cases if case.detail.startswith("left out")] == ["strided"]
    wrong = judged(cpu_bench, LARGE[name], 30.0)
    assert (wrong.verdict, wrong.reason) == (Verdict.WRONG, "value.mismatch"), wrong.message


@pytest.mark.bench
def test_children_of_an_audit_are_lent_the_memory_of_those_that_have_ended(cpu_bench):
    source = LARGE["slices"]
    candidate = source.replace("class Model(", "class ModelNew(")
    seen = cpu_bench.evaluate(Job("large", ProblemSpec(source), candidate, limits=LIMITS, timing=False))
    assert seen.verdict is Verdict.PASS and seen.audit is Audit.PASSED, seen.message


def test_only_the_memory_of_a_child_that_has_ended_is_lent_again(monkeypatch):
    looks: list[str] = []
    seen = {"gone": [("a thread",), ()], "stays": [("a thread",)] * 9}

    def look(boss: object, name: str, timeout: float) -> SimpleNamespace:
        looks.append(name)
        return SimpleNamespace(threads=seen[name].pop(0))

    monkeypatch.setattr(subjects_of, "look", look)
    monkeypatch.setattr(subjects_of, "FIRST_PAUSE_S", 0.001)
    monkeypatch.setattr(subjects_of, "ENDING_S", 0.05)
    arenas = Arenas()
    lent = {name: Arena(torch.zeros(64, dtype=torch.uint8), "cpu", "ipc") for name in seen}
    arenas._lent = [(arena, {}) for arena in lent.values()]
    assignment: Any = SimpleNamespace(payload={"subjects": []}, links=[], boss=None, device="cpu")
    subjects = Subjects(assignment, Deadline(5, 5), arenas, {})
    contacts: Any = {name: SimpleNamespace(lent=arena, hang_up=lambda: None) for name, arena in lent.items()}
    subjects.contacts = dict(contacts)
    subjects.release()
    subjects.contacts = dict(contacts)
    subjects.release("gone", "stays")
    assert not looks and not arenas._free, "nobody waits where memory is plenty"
    subjects.contacts, subjects.reclaims = dict(contacts), True
    subjects.release("gone", "stays")
    assert [arena for arena, _ in arenas._free] == [lent["gone"]]
    assert [arena for arena, _ in arenas._lent] == [lent["stays"]] and arenas.device_bytes == 128


def test_the_runner_answers_all_looks_for_children_that_do_not_end(monkeypatch):
    clock, looks = [0.0], []
    sleep = SimpleNamespace(monotonic=lambda: clock[0], sleep=lambda s: clock.__setitem__(0, clock[0] + s))
    monkeypatch.setattr(subjects_of, "time", sleep)
    monkeypatch.setattr(subjects_of, "look", lambda *asked: looks.append(asked) or SimpleNamespace(threads=["one"]))
    assignment: Any = SimpleNamespace(payload={"subjects": []}, links=[], boss=None, device="cpu")
    subjects = Subjects(assignment, Deadline(5, 5), Arenas(), {})
    assert not subjects._has_ended("stays", subjects_of.ENDING_S)
    assert 1 < len(looks) <= LOOKS_EACH and MOST_LOOKS > LOOKS_EACH * MOST_CHILDREN


class FakeGpu:
    """A GPU of 1000 bytes: the referee's allocator keeps 50 and it lends 100; the rest is children's and strangers'."""

    def __init__(self, monkeypatch, strangers: float, **children: int) -> None:
        self.strangers, self.children = strangers, children
        monkeypatch.setattr(accounting.gpu, "taken_by_others", lambda device: self.taken() / 1000)
        monkeypatch.setattr(accounting.gpu, "free_bytes", lambda device: 950 - self.taken())
        monkeypatch.setattr(accounting.memory, "total_bytes", lambda device: 1000.0)
        monkeypatch.setattr(accounting, "CONTEXTS_BYTES", 50)

    def taken(self) -> float:
        return 100 + self.strangers + sum(self.children.values())

    def account(self, plan: MemoryPlan | None) -> MemoryAccount:
        """Its evaluation has begun."""
        cache: Any = SimpleNamespace(reference=SimpleNamespace(plan=plan), arenas=SimpleNamespace(device_bytes=100))
        contacts = dict.fromkeys(self.children, SimpleNamespace(peak_bytes=7))
        subjects: Any = SimpleNamespace(contacts=contacts, release=lambda *names: self.leave(contacts, names))
        one = MemoryAccount(cache, subjects, "cuda:0")
        one.begin()
        return one

    def leave(self, contacts: dict[str, Any], names: tuple[str, ...]) -> None:
        for name in names:
            del contacts[name], self.children[name]


LEAN = MemoryPlan(inputs=100, outputs=100, state=0, forward=200, room=900, widened=2)
WHOLE_PLAN = MemoryPlan(100, 100, 0, 200, 1e6, 2)


def test_a_judge_without_memory_refuses_the_problem_with_the_bytes(monkeypatch):
    ended = FakeGpu(monkeypatch, 200, candidate=100).account(LEAN).shortage(MemoryError(), "timing")
    assert (ended.verdict, ended.reason, ended.stage) == (Verdict.REFUSED_PROBLEM, "problem.memory", "timing")
    assert ended.message == f"{LEAN.words}: use smaller tensors" and "judging it takes about" in LEAN.words


def test_whoever_keeps_much_more_than_a_forward_takes_is_out_of_memory(monkeypatch):
    for held, verdict in ((451, Verdict.OUT_OF_MEMORY), (449, Verdict.REFUSED_PROBLEM)):
        one = FakeGpu(monkeypatch, 100, candidate=held, eager=10).account(LEAN)
        assert one.shortage(MemoryError(), "correctness").verdict is verdict
        assert one._reached == {"candidate": 7, "eager": 7}, "their peaks are told although they are gone"


def test_memory_that_another_evaluation_takes_meanwhile_is_not_the_candidates(monkeypatch):
    gpu = FakeGpu(monkeypatch, 0, candidate=30, eager=30)
    one = gpu.account(LEAN)
    gpu.strangers = 600
    with pytest.raises(JudgeError, match="others hold"):
        one.shortage(MemoryError(), "correctness")


OOM = Ended(Verdict.OUT_OF_MEMORY, "smoke", "run.oom", "no room")
BASELINE_OOM = Ended(Verdict.REFUSED_PROBLEM, "timing", "problem.memory", "no room")


@pytest.mark.parametrize(
    ("strangers", "later", "excused"),
    [(0, 0, False), (340, 340, False), (360, 360, True), (0, 360, True), (360, 0, True), (0, 340, False)],
)
@pytest.mark.parametrize("ended", [OOM, BASELINE_OOM])
def test_a_lack_of_memory_is_a_childs_own_where_strangers_left_its_share(monkeypatch, strangers, later, excused, ended):
    """A child may have 500 bytes, and the referee holds 150."""
    gpu = FakeGpu(monkeypatch, strangers, candidate=0)
    one = gpu.account(WHOLE_PLAN)
    gpu.strangers, gpu.children["candidate"] = later, 480 if later < 360 else 400
    if excused:
        with pytest.raises(JudgeError, match=r"others held .* no room"):
            one.may_blame(ended)
    else:
        one.may_blame(ended)


def test_where_memory_is_lent_to_one_after_another_a_share_is_all_of_it(monkeypatch):
    for strangers, excused in ((190, False), (210, True)):
        gpu = FakeGpu(monkeypatch, strangers, candidate=0)
        one = gpu.account(LEAN)
        gpu.children["candidate"] = 600
        with pytest.raises(JudgeError) if excused else nullcontext():
            one.may_blame(OOM)
    FakeGpu(monkeypatch, 900, candidate=0).account(LEAN).may_blame(Ended(Verdict.WRONG, "smoke", "x.y", ""))


def test_memory_in_other_hands_and_a_lack_that_nobody_planned_are_the_devices_fault(monkeypatch):
    with pytest.raises(JudgeError, match="others hold"):
        FakeGpu(monkeypatch, 301, candidate=199).account(LEAN).shortage(MemoryError(), "load")
    for plan in (None, WHOLE_PLAN):
        with pytest.raises(JudgeError, match="the judge found too little memory: asked in vain"):
            FakeGpu(monkeypatch, 100).account(plan).shortage(MemoryError("asked in vain"), "load")


def test_a_preflight_refuses_what_a_lean_evaluation_could_not_hold(tmp_path, monkeypatch):
    loaded = load_problem(SWISH, None, tmp_path)
    monkeypatch.setattr(memory, "free_bytes", lambda device: 270_000.0)
    assert sum(1 for _ in every_question(loaded, "cpu", DEFAULT_POLICY, few=False)) > 3
    monkeypatch.setattr(memory, "free_bytes", lambda device: 260_000.0)
    with pytest.raises(MemoryError, match=r"judging it takes about 0 MiB, and 0 MiB can be had"):
        next(iter(every_question(loaded, "cpu", DEFAULT_POLICY, few=False)))
    refused = _refusal("Model.forward on other inputs", tmp_path, MemoryError(LEAN.words))
    assert refused.reason == "problem.memory" and "Judging it takes about" in refused.message
    full = "CUDA out of memory. Tried to allocate 3.73 GiB. GPU 0 has a total capacity of 139.80 GiB of which 1 is free"
    message = _refusal("Model.forward", tmp_path, torch.OutOfMemoryError(full)).message
    assert "asked for 3.73 GiB more" in message and "has 139.80 GiB in all" in message
