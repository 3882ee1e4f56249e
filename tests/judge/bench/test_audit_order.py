"""The checks of an audit in their order, what each is given, and how one that fails is told. Starts no child."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch

from judge.bench.audit import audit as whole
from judge.bench.audit import setting as settings
from judge.bench.audit.audit import Audit, audit, sanitizer
from judge.bench.audit.launch_checks import Kernels
from judge.bench.audit.setting import Setting, other_question, survives
from judge.bench.audit.state_checks import Witness
from judge.bench.exchange.contact import Deadline, SubjectFailed
from judge.bench.judging.completion import Ended
from judge.bench.judging.parameters import SEEDED, Binding
from judge.bench.judging.precision import weighted_errors
from judge.values import DEFAULT_POLICY, JudgeError, Verdict
from tests.judge.audit_setting import Audited, ended
from tests.judge.replies import counted, forwarded

KERNELS = Kernels(frozenset({"k"}), frozenset(), False, frozenset(), 0, {})
PLAIN = Binding((), hook=False)
LATE = SubjectFailed("audit", "timeout", "forward", "")


class Subjects:
    """Writes down who is started, readied and released."""

    def __init__(self) -> None:
        self.said: list[object] = []
        self.contacts: dict[str, object] = {"candidate": "contact", "eager": "contact"}
        self.deadline = Deadline(5.0, 3.0)

    def more(self, wanted):
        self.said.append(("more", dict(wanted)))
        self.contacts |= wanted

    want = more

    def release(self, *names):
        self.said.append(("release", names))
        for name in names:
            del self.contacts[name]

    def introduce(self, name, reference, question):
        self.said.append(("introduce", name, question))
        return PLAIN


@pytest.fixture
def steps(monkeypatch):
    """The checks, each of which is written down; `steps.fail` names one that raises."""
    state = SimpleNamespace(seen=[], fail={}, records=[])

    def step(name, result):
        def check(*given, **named):
            state.seen.append(name)
            if name in state.fail:
                raise state.fail[name]
            return result

        return check

    witness = Witness(None, "question", forwarded())
    monkeypatch.setattr(whole, "examine", step("examine", witness))
    monkeypatch.setattr(whole.Kernels, "of", step("kernels", KERNELS))
    monkeypatch.setattr(whole, "check_effect", step("effect", "1 kernel ran"))
    monkeypatch.setattr(whole, "note_decoys", step("decoys", None))
    monkeypatch.setattr(whole, "check_recount", step("counts", "3 us"))
    monkeypatch.setattr(whole, "from_traffic", step("traffic", None))
    monkeypatch.setattr(whole, "check_compiler", step("compiler", None))
    monkeypatch.setattr(whole, "check_share", step("share", "40%"))
    monkeypatch.setattr(whole, "check_sealed", step("sealed", "2 right"))
    monkeypatch.setattr(whole, "check_roofline", step("roofline", "12 us"))
    monkeypatch.setattr(whole, "first_child", lambda setting: {"sealed#1": "run"})
    return state


def run(steps, *, device: str = "cpu", candidate_us: float | None = None, interprets: bool = False) -> Subjects:
    subjects = Subjects()
    setting = Audited(
        device=device,
        subjects=subjects,
        candidate_us=candidate_us,
        interprets=interprets,
        counted=None,
        assignment=SimpleNamespace(target="sm_90"),
    )
    Audit(setting, lambda *row: steps.records.append(row), "lock").run()
    return subjects


def test_the_time_of_a_check_is_recorded_in_milliseconds(steps, monkeypatch):
    ticks = iter(range(100))
    monkeypatch.setattr(whole.time, "monotonic", lambda: next(ticks) * 0.25)
    run(steps)
    steps.fail["examine"] = LATE
    with pytest.raises(Ended):
        run(steps)
    assert [ms for _, _, ms, _ in steps.records] == [250.0] * 6


CHECKS = ["examine", "kernels", "effect", "decoys", "traffic", "traffic", "compiler", "sealed"]


def test_the_checks_come_in_order_and_each_is_recorded(steps):
    subjects = run(steps)
    assert steps.seen == CHECKS
    assert [(name, state, detail) for name, state, _, detail in steps.records] == [
        ("audit.state", "ok", ""), ("audit.launches", "ok", "1 kernel ran"), ("audit.share", "ok", "not known"),
        ("audit.sealed", "ok", "2 right"), ("audit.text", "ok", ""),
    ]  # fmt: skip
    assert all(0 <= ms < 5e3 for _, _, ms, _ in steps.records)
    children = {"audit": "census", "audit.noop": "noop", "sealed#1": "run"}
    assert subjects.said == [("more", children), ("release", ("audit",))]


def test_a_modelled_time_is_counted_again(steps):
    run(steps, interprets=True, candidate_us=3.0)
    assert steps.seen == ["examine", "kernels", "counts", *CHECKS[2:]]
    assert steps.records[1][0] == "audit.counts" and steps.records[1][3] == "3 us"
    steps.seen.clear()
    run(steps, interprets=True)
    assert steps.seen == CHECKS, "no time was asked for"


def test_a_gpu_has_its_trace_its_roofline_and_no_sanitizer(steps, monkeypatch):
    monkeypatch.setattr(Audit, "_traced", lambda self, witness, kernels: "share")
    monkeypatch.setattr(whole, "sanitizer", lambda: "none here")
    run(steps, device="cuda:0", candidate_us=3.0)
    assert steps.seen == ["examine", "kernels", "effect", "decoys", "compiler", "share", "sealed", "roofline"]
    assert [row[:2] for row in steps.records[3:]] == [
        ("audit.sealed", "ok"), ("audit.sanitizer", "skipped"), ("audit.roofline", "ok"), ("audit.text", "ok"),
    ]  # fmt: skip
    assert steps.records[2][3] == "40%" and steps.records[4] == ("audit.sanitizer", "skipped", 0.0, "none here")
    steps.records.clear()
    run(steps, device="cuda:0")
    assert "audit.roofline" not in [row[0] for row in steps.records], "nothing was measured"


@pytest.mark.parametrize(
    ("check", "record", "fault", "told"),
    [
        ("examine", "audit.state", Ended(Verdict.WRONG, "load", "x.y", ""), (Verdict.WRONG, "audit", "x.y")),
        ("effect", "audit.launches", LATE, (Verdict.TIMED_OUT, "audit", "run.timeout")),
        ("compiler", "audit.share", Ended(Verdict.SUSPECT, "audit", "z", ""), (Verdict.SUSPECT, "audit", "z")),
    ],
)  # fmt: skip
def test_the_first_check_that_fails_ends_it_and_is_recorded(steps, check, record, fault, told):
    steps.fail[check] = fault
    assert ended(lambda: run(steps)) == told
    name, state, ms, detail = steps.records[-1]
    assert (name, state, detail) == (record, "failed", told[2]) and 0 <= ms < 5e3
    assert steps.seen[-1] == check


def test_a_text_that_reaches_further_ends_it_last(steps):
    reaching = Audited(device="cpu", subjects=Subjects(), candidate_us=None, interprets=False, counted=None)
    reaching.assignment, reaching.reaches = SimpleNamespace(target="sm_90"), ["candidate.py:3: import of gc"]
    assert ended(lambda: Audit(reaching, lambda *row: steps.records.append(row), "lock").run()) == (
        Verdict.SUSPECT,
        "audit",
        "audit.text",
    )
    assert steps.seen == CHECKS and steps.records[-1][:2] == ("audit.text", "failed")


@pytest.mark.parametrize(("gpu", "noted"), [([{"name": "k", "us": 1.0}], ""), ([], "no kernel")])
def test_a_trace_is_one_more_call_that_is_judged_too(gpu, noted):
    said: list[object] = []
    reply = forwarded(gpu=gpu, **({"gpu_failure": "no kernel"} if noted else {}))
    rounds = SimpleNamespace(
        tell=lambda question, count: said.append((question, count)) or "slots",
        contact=SimpleNamespace(answer=lambda kind: reply),
        judge=lambda *row: said.append(row),
    )
    setting = Audited(device="cuda:0")
    share = Audit(setting, print, None)._traced(Witness(rounds, "question", reply), KERNELS)
    assert said == [("question", True), ("question", reply, "slots", "audit")]
    assert (share is None) is bool(noted)
    assert [(one.code, one.message) for one in setting.findings] == ([("profile.unavailable", noted)] if noted else [])


def test_the_sanitizer_is_named_where_it_is(monkeypatch, tmp_path):
    for name in ("CUDA_HOME", "CUDA_PATH"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PATH", "/nowhere")
    assert sanitizer() == "compute-sanitizer is not installed"
    tool = tmp_path / "bin" / "compute-sanitizer"
    tool.parent.mkdir()
    tool.write_text("")
    tool.chmod(0o755)
    for name, value in (("PATH", str(tool.parent)), ("CUDA_HOME", str(tmp_path)), ("CUDA_PATH", str(tmp_path))):
        monkeypatch.setenv(name, value)
        assert sanitizer().startswith(f"{tool} is no part of an audit: ")
        monkeypatch.setenv("PATH", "/nowhere")
        monkeypatch.delenv(name) if name != "PATH" else None


def test_an_audit_has_a_wall_limit_of_its_own_and_children_of_its_own(monkeypatch):
    subjects, seen = Subjects(), []
    monkeypatch.setattr(Audit, "run", lambda self: seen.append((self.setting, self.record, self.lock)))
    payload = {
        "wall_s": 60.0,
        "basis": "modelled",
        "sealed": [{"name": "a", "constants": {"N": 2}, "derived": True}],
        "defined": {"k": []},
        "reaches": [],
    }
    assignment = SimpleNamespace(payload=payload, device="cuda:0")
    subjects.deadline = Deadline(-1.0, 30.0)
    log = SimpleNamespace(record="record")
    findings: list[object] = []
    audit(assignment, subjects, SimpleNamespace(policy=DEFAULT_POLICY), "lock", log, findings, 3.0)
    ((setting, record, lock),) = seen
    assert subjects.said == [("release", ("candidate", "eager"))] and subjects.deadline.stage() == 30.0
    assert (record, lock, setting.candidate_us, setting.device, setting.interprets) == (
        "record",
        "lock",
        3.0,
        "cuda:0",
        True,
    )
    assert (
        setting.library is DEFAULT_POLICY.library
        and setting.findings is findings
        and setting.defined == {"k": []}
        and setting.usual is None
    )
    assert [(case.name, case.constants, case.derived) for case in setting.sealed] == [("a", {"N": 2}, True)]
    setting.note("a.b", "text", count=3)
    assert [(one.code, one.message, one.data) for one in findings] == [("a.b", "text", {"count": 3})]


# -- asking --


def setting(monkeypatch, fit: Binding = PLAIN) -> Setting:
    payload = {"basis": "measured", "sealed": [], "defined": {}, "reaches": []}
    subjects = Subjects()
    monkeypatch.setattr(Subjects, "introduce", lambda self, *row: self.said.append(row) or fit)
    assignment = SimpleNamespace(payload=payload, device="cpu", boss="boss")
    reference = SimpleNamespace(policy=DEFAULT_POLICY, first="first")
    made = Setting(assignment, subjects, reference, [], None)
    subjects.contacts["audit"] = "the contact"

    class Questions:
        def __init__(self, reference) -> None:
            self.state = "state"

        def question(self, family, state):
            return (family, state)

    monkeypatch.setattr(settings, "Questions", Questions)
    monkeypatch.setattr("judge.bench.judging.asking.Questions", Questions)
    return made


@pytest.mark.parametrize("fit", [PLAIN, SEEDED])
def test_a_child_is_asked_about_random_outputs_as_one_that_was_compared_before(monkeypatch, fit):
    made = setting(monkeypatch, fit)
    rounds, question = made.rounds("audit")
    assert question == ("given", "first") and made.rounds("audit", "mine")[1] == "mine"
    assert rounds.contact == "the contact" and rounds.fit is fit and rounds.by_chance is True
    assert rounds.questions.seeded is fit.seeded and rounds.reference is made.reference
    assert made.subjects.said == [("audit", made.reference, ("given", "first")), ("audit", made.reference, "mine")]


def test_the_runner_is_asked_within_the_time_of_a_stage(monkeypatch):
    made, asked = setting(monkeypatch), []
    monkeypatch.setattr(settings, "look", lambda *row: asked.append(row) or "seen")
    assert made.look("audit") == "seen"
    boss, name, limit_s = asked[0]
    assert (boss, name) == ("boss", "audit") and 2.9 < limit_s <= 3.0


def answered(*answers: object, random: bool = False, state: object = ()) -> tuple[bool, list[str]]:
    """`survives` where the child's calls end so, one after the other and the last one again; and what was asked."""
    oracle = torch.tensor([1.0, 2.0, 3.0, 4.0]).double()
    target = SimpleNamespace(
        integer=False, same=oracle.float(), errors=lambda value: weighted_errors(value, oracle, None),
        allowed=SimpleNamespace(holds=lambda found: found.rms < 0.01),
    )  # fmt: skip
    expected = SimpleNamespace(
        outputs=[target, target],
        random=frozenset({1}) if random else frozenset(),
        template=None,
        is_gradient=lambda number: False,
        metas=[],
        state=state,
    )
    asked: list[str] = []

    def next_answer(_: object) -> object:
        answer = answers[min(len(asked), len(answers)) - 1]
        if isinstance(answer, Exception):
            raise answer
        return answer

    def ask(question, poison):
        asked.append("marked memory" if poison else "")
        next_answer(None)
        return {}, SimpleNamespace(outs="outs")

    def timed(kind, *, flush, **told):
        asked.append(kind.op)
        next_answer(None)

    contact = SimpleNamespace(take=next_answer, lay_out=lambda *row: ([], []), ask=timed)
    found = survives(SimpleNamespace(ask=ask, contact=contact), SimpleNamespace(expected=expected, inputs=[], seed=1))
    return found, asked


def is_answered(*answers: object, random: bool = False) -> bool:
    return answered(*answers, random=random)[0]


RIGHT, WRONG = torch.tensor([1.0, 2.0, 3.0, 4.0]), torch.tensor([1.0, 2.0, 3.0, 9.0])
SURE, OFF = [RIGHT, RIGHT], [RIGHT, WRONG]
ALL = ["marked memory"] * 3 + ["timed"] * 2


def test_a_child_is_asked_again_and_as_in_a_measurement(monkeypatch):
    monkeypatch.setattr(settings, "check_structure", lambda reply, expected, stage: None)
    raised = SubjectFailed("a", "exception", "forward", "")
    assert answered(SURE) == (True, ALL[:1]) and answered(OFF) == (False, ALL)
    assert answered(OFF, raised, SURE) == (True, ALL[:3])
    assert answered(OFF, OFF, OFF, raised, SURE) == (True, ALL)
    assert answered(OFF, state={"running_mean": 1}) == (False, ALL[:3]), "a timed call would change the parameters"
    for kind in ("died", "timeout", "garbage", "touched"):
        assert answered(OFF, SubjectFailed("a", kind, "forward", ""), SURE) == (False, ALL[:2])


def test_a_child_survives_with_right_answers_only(monkeypatch):
    monkeypatch.setattr(settings, "check_structure", lambda reply, expected, stage: None)
    right, wrong = RIGHT, WRONG
    answered = is_answered
    assert answered([right, right]) and not answered([right, wrong]) and not answered([wrong, right])
    other_draw = torch.tensor([4.0, 3.0, 2.0, 1.0])
    assert answered([right, other_draw], random=True) and not answered([other_draw, right], random=True)
    with monkeypatch.context() as patched:
        structure = SimpleNamespace(asked=[])

        def refuse(reply, expected, stage):
            structure.asked.append(stage)
            raise Ended(Verdict.WRONG_STRUCTURE, stage, "structure.shape", "")

        patched.setattr(settings, "check_structure", refuse)
        assert not answered([right, right], [right, right], [right, right], [right, wrong])
        assert structure.asked == ["audit"] * 3
    assert not answered(SubjectFailed("a", "died", "forward", ""))
    assert not answered(Ended(Verdict.WRONG, "audit", "", ""))


def asked_otherwise(*answers: object, seeded: bool = False, lost: bool = False) -> tuple[object, list[object]]:
    """`other_question` where the reference gives these in turn, or raises them."""
    left, states = list(answers), []
    reference = SimpleNamespace(
        reseeded=lambda: "reseeded",
        redrawn=lambda gently: "gently" if gently else "redrawn",
        whereabouts=SimpleNamespace(device_lost=lambda: lost),
    )

    def question(family, state):
        states.append((family, state))
        answer = left.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return SimpleNamespace(expected=answer)

    rounds = SimpleNamespace(
        reference=reference, fit=SEEDED if seeded else PLAIN, questions=SimpleNamespace(question=question)
    )
    return other_question(rounds, "given"), states


FIT, COARSE = SimpleNamespace(finite=True, worst=0.25), SimpleNamespace(finite=True, worst=0.26)
INFINITE = SimpleNamespace(finite=False, worst=0.0)


def test_other_parameters_are_tried_from_the_most_telling_on():
    found, states = asked_otherwise(FIT)
    assert found.expected is FIT and states == [("given", "redrawn")]
    found, states = asked_otherwise(ValueError("no"), FIT)
    assert found.expected is FIT and states == [("given", "redrawn"), ("given", "gently")]
    assert asked_otherwise(FIT, seeded=True)[1] == [("given", "reseeded")]
    for unfit in (COARSE, INFINITE):
        assert asked_otherwise(unfit, FIT)[0].expected is FIT
        assert asked_otherwise(unfit, unfit)[0] is None
    with pytest.raises(JudgeError, match="broke in an audit"):
        asked_otherwise(RuntimeError("CUDA error"), FIT, lost=True)


@pytest.mark.parametrize("poison", [True, False])
def test_a_question_of_the_audit_is_judged_like_those_before(poison):
    said: list[object] = []
    rounds = SimpleNamespace(
        tell=lambda question, **how: said.append((question, how)) or "slots",
        contact=SimpleNamespace(answer=lambda kind: "reply"),
        judge=lambda *row: said.append(row),
        values=["value"],
    )
    found = settings.ask(rounds, "question", poison=poison, count=not poison)
    assert (found.reply, found.values) == ("reply", ["value"])
    assert said == [("question", {"poison": poison, "count": not poison}), ("question", "reply", "slots", "audit")]


def test_a_child_that_fails_in_the_audit_is_the_candidate():
    def tell(question, **how):
        raise SubjectFailed("audit", "died", "forward", "")

    assert ended(lambda: settings.ask(SimpleNamespace(tell=tell), "question")) == (Verdict.CRASHED, "audit", "run.died")
    assert settings.elements(SimpleNamespace(tensors=lambda: [torch.zeros(2, 3), torch.zeros(4)])) == 10


def test_the_share_is_the_lower_of_what_was_timed_and_what_was_watched():
    own, torchs = counted("own"), counted("aten.mul", "torch")
    for timed, watched, value in (((own,), (own,), 1.0), ((torchs,), (own,), 0.0), ((own,), (torchs,), 0.0)):
        setting = Audited(counted=timed, assignment=SimpleNamespace(target="sm_90"))
        witness = Witness(None, "question", replace(forwarded(), traffic=watched))
        found = Audit(setting, lambda *row: None, "lock")._counted(witness)
        assert found is not None and found.value == value
