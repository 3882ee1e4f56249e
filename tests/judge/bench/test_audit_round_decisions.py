"""What an audit makes of repeats, of other parameters, of what stays behind and of sealed cases. Starts no child."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from types import SimpleNamespace

import pytest
import torch

from judge.bench.audit import sealed, state_checks
from judge.bench.audit import setting as settings
from judge.bench.audit.case_child import KEPT
from judge.bench.audit.sealed import check_sealed, first_child
from judge.bench.audit.setting import Answer
from judge.bench.exchange.claims import Forwarded
from judge.bench.exchange.contact import SubjectFailed
from judge.bench.exchange.nested import NotCarried
from judge.bench.foreign.whereabouts import SILENT
from judge.bench.judging.asking import Question
from judge.bench.judging.completion import Ended
from judge.bench.judging.reference import REFUSALS
from judge.bench.processes.inspection import Seen
from judge.values import JudgeError, SealedCase, Verdict
from tests.judge.audit_setting import Audited, ended

# -- the same again, and other parameters --


def scripted(monkeypatch, *answers: object) -> list[tuple[object, dict[str, bool]]]:
    """`ask` answers with these values in turn, or raises them; what was asked is written down."""
    asked, left = [], list(answers)

    def ask(rounds, question, **how):
        asked.append((question, how))
        answer = left.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return Answer({"reply": len(asked)}, [torch.tensor([float(answer)])])

    monkeypatch.setattr(state_checks, "ask", ask)
    return asked


def wrong(verdict: Verdict = Verdict.WRONG, reason: str = "value.mismatch") -> Ended:
    return Ended(verdict, "audit", reason, "it was off")


@pytest.mark.parametrize(("interprets", "times"), [(False, 7), (True, 2)])
def test_equal_bits_every_time_say_nothing(monkeypatch, interprets, times):
    asked, setting = scripted(monkeypatch, *[1.0] * times), Audited(interprets=interprets)
    first = state_checks._repeat(setting, None, "question")
    assert first.reply == {"reply": 1} and setting.codes == []
    assert asked == [("question", {"count": interprets}), *[("question", {})] * (times - 1)]


def test_other_bits_are_counted(monkeypatch):
    scripted(monkeypatch, 1.0, 1.0, 2.0, 1.0, 3.0, 1.0, 1.0)
    setting = Audited(interprets=False)
    state_checks._repeat(setting, None, "question")
    (note,) = setting.findings
    assert (note.code, note.data) == ("run.not_bitwise", {"repeats": 6, "differing": 2})
    assert note.message.startswith("2 of 6 repeats")


@pytest.mark.parametrize("verdict", [Verdict.WRONG, Verdict.NOT_FINITE, Verdict.STATE_VIOLATION, Verdict.CRASHED])
def test_a_wrong_repeat_is_unstable_and_any_other_fault_its_own(monkeypatch, verdict):
    scripted(monkeypatch, 1.0, 1.0, wrong(verdict))
    told = ended(lambda: state_checks._repeat(Audited(interprets=False), None, "question"))
    values = verdict in (Verdict.WRONG, Verdict.NOT_FINITE)
    assert told == ((Verdict.UNSTABLE, "audit", "run.unstable") if values else (verdict, "audit", "value.mismatch"))


@pytest.mark.parametrize(("again", "reason"), [(1.0, "audit.stale"), (wrong(Verdict.STATE_VIOLATION), "audit.poison")])
def test_wrong_with_other_parameters_is_the_memory_or_the_parameters(monkeypatch, again, reason):
    asked = scripted(monkeypatch, wrong(Verdict.STATE_VIOLATION, "state.buffers"), again)
    monkeypatch.setattr(state_checks, "other_question", lambda rounds, family: f"other {family}")
    first = SimpleNamespace(question=lambda family, state: f"{family} {state}")
    rounds = SimpleNamespace(questions=first, reference=SimpleNamespace(first="first"))
    with pytest.raises(Ended) as caught:
        state_checks._change_parameters(rounds)
    assert (caught.value.verdict, caught.value.reason) == (Verdict.STATE_VIOLATION, reason)
    assert caught.value.message.endswith("it was off")
    assert asked == [("other given", {"poison": True}), ("given first", {"poison": True})]


def test_other_parameters_are_asked_once_and_other_faults_pass_through(monkeypatch):
    monkeypatch.setattr(state_checks, "other_question", lambda rounds, family: None)
    asked = scripted(monkeypatch)
    state_checks._change_parameters(None)
    assert asked == []
    monkeypatch.setattr(state_checks, "other_question", lambda rounds, family: "other")
    asked = scripted(monkeypatch, 1.0)
    state_checks._change_parameters(None)
    assert asked == [("other", {"poison": True})]
    scripted(monkeypatch, wrong(Verdict.CRASHED, "run.exception"))
    assert ended(lambda: state_checks._change_parameters(None)) == (Verdict.CRASHED, "audit", "run.exception")


def seen(*late: str, processes: tuple[tuple[int, str], ...] = (), files: tuple[str, ...] = ()) -> Seen:
    threads = [(1, "python"), *enumerate(late, start=2)]
    return Seen(threads=tuple(threads), processes=processes, files=files, late=late)


class Trusting(Audited):
    """An audit in which the reference's own process has these later threads."""

    def __init__(self, drivers: Seen, **given: object) -> None:
        super().__init__(looks=[], asked=[], drivers=drivers, **given)
        self.subjects = SimpleNamespace(more=self.asked.append, release=self.asked.append)

    def rounds(self, name, question):
        return SimpleNamespace(ask=lambda asked: self.asked.append((name, asked))), question


def left_over(
    monkeypatch,
    before: Seen,
    *looks: Seen,
    device: str = "cuda:0",
    interprets: bool = False,
    drivers: Seen = seen(),  # noqa: B008 - a value
) -> Trusting:
    now, left = [0.0], list(looks)
    monkeypatch.setattr(state_checks.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(state_checks.time, "sleep", lambda seconds: now.__setitem__(0, now[0] + seconds))
    setting = Trusting(drivers, device=device, interprets=interprets)

    def look(name):
        if name == state_checks.TRUSTED:
            return setting.drivers
        setting.looks.append((name, round(now[0], 6)))
        return left.pop(0) if len(left) > 1 else left[0]

    setting.look = look
    state_checks._left_over(setting, "audit", before, "question")
    return setting


def test_threads_and_processes_that_stay_are_suspect(monkeypatch):
    for after in (seen("worker"), seen(processes=((7, "sleep"),))):
        for device in ("cuda:0", "cpu"):
            with pytest.raises(Ended) as caught:
                left_over(monkeypatch, seen(), after, device=device)
            assert (caught.value.verdict, caught.value.reason) == (Verdict.SUSPECT, "audit.threads")
            assert "1 threads or processes" in caught.value.message
            assert ("worker" if after.late else "sleep") in caught.value.message


def test_what_was_there_before_the_candidate_is_known(monkeypatch):
    before = Seen(((1, "python"), (2, "cuda-EvtHandlr")), (), ())
    setting = left_over(monkeypatch, before, before)
    assert (setting.looks, setting.asked) == ([("audit", 0.0)], [])


def test_a_name_alone_makes_no_thread_the_driver_s(monkeypatch):
    """As many as the reference's own process has of that name are."""
    two = seen("cuda-EvtHandlr", "cupti")
    setting = left_over(monkeypatch, seen(), two, drivers=two)
    assert setting.asked == [{state_checks.TRUSTED: "eager"}, (state_checks.TRUSTED, "question"), state_checks.TRUSTED]
    for late in (seen("cuda-EvtHandlr", "cuda-EvtHandlr"), seen("cuda-EvtHandlr", "cupti", "nv-late")):
        with pytest.raises(Ended, match=r"audit\.threads") as caught:
            left_over(monkeypatch, seen(), late, drivers=two)
        assert "1 threads or processes" in caught.value.message
    with pytest.raises(Ended):
        left_over(monkeypatch, seen(), two, drivers=two, device="cpu")


@pytest.mark.parametrize(("interprets", "looks"), [(False, [0.0, 0.05]), (True, [0.0, 0.05, 0.15, 0.35, 0.75, 1.55])])
def test_a_thread_that_is_ending_has_a_moment(monkeypatch, interprets, looks):
    busy = [seen("worker")] * (len(looks) - 1)
    setting = left_over(monkeypatch, seen(), *busy, seen(), interprets=interprets)
    assert [at for _, at in setting.looks] == looks
    with pytest.raises(Ended):
        left_over(monkeypatch, seen(), *busy, seen("worker"), interprets=interprets)


def test_files_left_behind_are_noted(monkeypatch):
    setting = left_over(monkeypatch, seen(files=("a",)), seen(files=("c", "a", "b")))
    assert [(one.code, one.data) for one in setting.findings] == [("audit.files", {"files": ["b", "c"]})]
    assert setting.findings[0].message == "forward left 2 files behind: b, c"


# -- sealed cases --


REFUSES = ("exception", "compile", "resources", "load", "oom")


def case(name: str, *, derived: bool = False) -> SealedCase:
    return SealedCase(name, {}, derived)


def sealed_with(monkeypatch, results: dict[str, str], *cases: SealedCase) -> Audited:
    setting = Audited(sealed=list(cases), asked=[], children=[])

    def ask_case(setting, child, case, number):
        setting.asked.append((number, case.name))
        setting.children.append(child)
        return results[case.name]

    monkeypatch.setattr(sealed, "_ask_case", ask_case)
    return setting


def test_every_case_is_asked_of_one_child_and_declared_ones_first(monkeypatch):
    cases = [case(str(n), derived=n < 4) for n in range(8)]
    orders = set()
    for _ in range(20):
        setting = sealed_with(monkeypatch, {str(n): "right" for n in range(8)}, *cases)
        assert check_sealed(setting) == "8 right"
        assert sorted(setting.asked[:4]) == [(n - 3, str(n)) for n in range(4, 8)], "numbered as they are stored"
        assert sorted(setting.asked[4:]) == [(n + 5, str(n)) for n in range(4)]
        assert len(set(setting.children)) == 1
        orders.add(tuple(setting.asked))
    assert len(orders) > 1, "nobody knows what a child was asked before"


def test_the_child_is_started_ahead_and_so_many_cases_are_asked(monkeypatch):
    cases = [case(str(n)) for n in range(14)]
    assert first_child(Audited(sealed=cases)) == {"sealed#1": "run"} and first_child(Audited(sealed=[])) == {}
    assert check_sealed(sealed_with(monkeypatch, {str(n): "right" for n in range(14)}, *cases)) == "12 right"


def test_a_problem_without_sealed_cases(monkeypatch):
    assert check_sealed(sealed_with(monkeypatch, {})) == "the problem has none"


@pytest.mark.parametrize(
    ("result", "how"), [("guarded", "raised an error"), ("wrong", "was wrong or gave no answer in time")]
)
def test_a_declared_case_that_fails_decides(monkeypatch, result, how):
    results = {"a": "right", "b": result, "c": "right"}
    setting = sealed_with(monkeypatch, results, case("c", derived=True), case("a"), case("b"))
    with pytest.raises(Ended) as caught:
        check_sealed(setting)
    assert (caught.value.verdict, caught.value.stage) == (Verdict.WRONG, "audit")
    assert caught.value.reason == "audit.sealed_case"
    assert f"on sealed case 2 of 2 the candidate {how}," in caught.value.message
    assert set(setting.asked) <= {(1, "a"), (2, "b")}, "derived ones are not asked any more"


def test_derived_cases_only_label(monkeypatch):
    results = {"a": "right", "b": "guarded", "c": "wrong", "d": "wrong", "e": "left out"}
    setting = sealed_with(monkeypatch, results, case("a"), *(case(name, derived=True) for name in "bcde"))
    assert check_sealed(setting) == "1 right, 1 guarded, 2 wrong, 1 left out"
    assert [(one.code, one.message, one.data) for one in setting.findings] == [
        (
            "shape.guarded", "made for the published inputs: refuses 1 of 4 others (size 1)",
            {"cases": 4, "failed": 1, "kinds": {"size": 1}},
        ),
        (
            "shape.unsafe", "made for the published inputs: gives wrong answers for 2 of 4 others (size 2)",
            {"cases": 4, "failed": 2, "kinds": {"size": 2}},
        ),
    ]  # fmt: skip


def test_a_declared_case_that_is_left_out_decides_nothing(monkeypatch):
    setting = sealed_with(monkeypatch, {"a": "left out"}, case("a"))
    assert check_sealed(setting) == "1 left out" and setting.codes == []


@pytest.mark.parametrize(
    ("kind", "derived", "excused", "result"),
    [
        *((kind, n > 4, False, "guarded") for n, kind in enumerate(REFUSES * 2)),
        *((kind, False, False, "wrong") for kind in ("bounds", "died")),
        ("timeout", False, False, "wrong"),
        ("timeout", False, True, "left out"),
        ("oom", True, True, "left out"),
        ("too_large", False, True, "left out"),
        ("unsupported", True, False, "guarded"),
    ],
)  # fmt: skip
def test_what_a_failure_on_a_sealed_case_means(kind, derived, excused, result):
    failed = SubjectFailed("sealed#1", kind, "forward", "secret")
    assert sealed._of_failure(failed, case("a", derived=derived), excused=excused) == result


@pytest.mark.parametrize(
    ("kind", "verdict", "reason", "tells"),
    [
        ("garbage", Verdict.DISHONEST, "tamper.channel", False),
        ("touched", Verdict.DISHONEST, "tamper.harness", True),
        ("unsupported", Verdict.UNSUPPORTED, "run.unsupported", False),
    ],
)
def test_what_ends_an_evaluation_on_a_sealed_case(kind, verdict, reason, tells):
    with pytest.raises(Ended) as caught:
        sealed._of_failure(SubjectFailed("sealed#1", kind, "forward", "secret"), case("a"), excused=False)
    assert (caught.value.verdict, caught.value.stage, caught.value.reason) == (verdict, "audit", reason)
    assert ("secret" in caught.value.message) is tells


def asked_case(
    monkeypatch, judged: list[object], derived: bool = False, **expected: object
) -> tuple[str, list[object]]:
    """`_ask` with a reference of this kind; each judgement passes or raises."""
    said = SimpleNamespace(**{"empty": False, "finite": True, "worst": 0.25} | expected)
    first = Question("given", [torch.zeros(expected.get("elements", 10))], {}, 1, said)
    monkeypatch.setattr(sealed, "Questions", lambda reference: SimpleNamespace(question=lambda *row: first))
    monkeypatch.setattr(settings, "other_question", lambda rounds, family: f"other {family}")
    seen, left = [], list(judged)

    def ask_once(rounds, question, stage, *, count=False):
        seen.append(question)
        step = left.pop(0) if left else None
        if step is not None:
            raise step

    monkeypatch.setattr(settings, "ask_once", ask_once)
    child = SimpleNamespace(judged=lambda reference, question, judge, stage: judge("rounds"))
    return sealed._ask(Audited(), child, case("a", derived=derived), SimpleNamespace(first=None)), seen[1:]


def test_a_case_is_right_when_both_rounds_are(monkeypatch):
    assert asked_case(monkeypatch, []) == ("right", ["other centred"])
    for step in (wrong(), wrong(Verdict.LOAD_FAILED, "load.params")):
        result = "guarded" if step.reason == "load.params" else "wrong"
        assert asked_case(monkeypatch, [None, step])[0] == result == asked_case(monkeypatch, [step])[0]


@pytest.mark.parametrize("unfit", [{"empty": True}, {"finite": False}, {"worst": 0.26}])
def test_a_case_without_an_answer_to_judge_by_is_left_out(monkeypatch, unfit):
    assert asked_case(monkeypatch, [], **unfit)[0] == "left out"


def test_a_failure_is_excused_by_what_the_reference_needs(monkeypatch):
    failed = SubjectFailed("sealed#1", "timeout", "forward", "")
    for excused, result in ((False, "wrong"), (True, "left out")):
        monkeypatch.setattr(sealed, "is_excused", lambda setting, fault, *rest, says=excused: fault is failed and says)
        assert asked_case(monkeypatch, [failed])[0] == result


def test_what_is_kept_of_another_case_ends_it_unless_the_case_only_labels(monkeypatch):
    kept = Ended(Verdict.STATE_VIOLATION, "audit", KEPT, "keep nothing")
    assert asked_case(monkeypatch, [kept], derived=True)[0] == "wrong"
    with pytest.raises(Ended, match=KEPT):
        asked_case(monkeypatch, [kept])


def test_a_broken_protocol_ends_it_without_the_candidates_words(monkeypatch):
    with pytest.raises(Ended) as caught:
        asked_case(monkeypatch, [Ended(Verdict.DISHONEST, "x", "tamper.channel", "secret")])
    assert (caught.value.stage, caught.value.reason) == ("audit", "tamper.channel")
    assert "secret" not in caught.value.message


def test_a_reference_that_breaks_its_device_in_a_sealed_case_judges_nobody():
    for lost, kind, raises in (
        (True, RuntimeError("x"), True),
        (False, RuntimeError("x"), False),
        (True, MemoryError(), False),
    ):
        setting = Audited(reference=SimpleNamespace(whereabouts=SimpleNamespace(device_lost=lambda lost=lost: lost)))
        if raises:
            with pytest.raises(JudgeError, match="broke in a sealed case"):
                sealed._unless_broken(setting, kind)
        else:
            sealed._unless_broken(setting, kind)


SIZED = "import torch\nSIZE, SHAPE = 3, (2, 3)\nclass Model(torch.nn.Module): ...\n"
SIZED += "def get_inputs(): return [SHAPE]\ndef get_init_inputs(): return [SIZE]\n"


def made(tmp_path, monkeypatch, **constants: object) -> tuple[object, object] | None:
    """The constants that the reference of a sealed case sees."""
    monkeypatch.setattr(sealed, "Reference", lambda loaded, device, policy: (loaded, device, policy))
    reference = SimpleNamespace(whereabouts=SILENT, policy="the policy")
    assignment = SimpleNamespace(payload={"source": SIZED, "case": None}, folder=tmp_path)
    tmp_path.mkdir()
    setting = Audited(assignment=assignment, reference=reference)
    before = sys.modules.get("problem")
    with sealed._reference(setting, SealedCase("a", constants), 2) as found:
        assert (tmp_path / "sealed2").is_dir()
        if found is None:
            return None
        loaded, device, policy = found
        assert (device, policy) == ("cpu", "the policy")
    assert sys.modules.get("problem") is before or before is None
    return loaded.get_init_inputs()[0], loaded.get_inputs()[0]


def test_the_reference_of_a_sealed_case_has_its_constants(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "problem", SimpleNamespace())
    assert made(tmp_path / "a", monkeypatch, SIZE=[7]) == ([7], (2, 3)), "a list stays one"
    assert made(tmp_path / "b", monkeypatch, SHAPE=[4, 5], SIZE=9) == (9, (4, 5)), "JSON knows no tuples"
    assert made(tmp_path / "c", monkeypatch, OTHER=1) is None


@pytest.mark.parametrize("count", [False, True])
def test_a_case_is_judged_by_the_answer_to_its_own_question(count):
    told: list[str] = []
    judged: list[object] = []

    def tell(question, *, count=False):
        told.append(f"{question}, {'counted' if count else 'not counted'}")
        return f"slots of {question}"

    contact = SimpleNamespace(answer=lambda kind: (kind, f"reply to {told[-1]}"))
    rounds = SimpleNamespace(tell=tell, contact=contact, judge=lambda *row: judged.append(row))
    reply = (Forwarded, f"reply to a question, {'counted' if count else 'not counted'}")
    assert settings.ask_once(rounds, "a question", "audit", count=count) == reply
    assert judged == [("a question", reply, "slots of a question", "audit")]


def test_only_the_first_round_of_a_case_counts_launches(monkeypatch):
    asked: list[object] = []

    def ask_once(rounds, question, stage, *, count=False):
        asked.append((question, stage, count))
        return f"reply to {question}"

    monkeypatch.setattr(settings, "ask_once", ask_once)
    monkeypatch.setattr(settings, "other_question", lambda rounds, family: f"other {family}")
    assert settings.judge_case("rounds", "given", "audit", count=True) == "reply to given"
    assert asked == [("given", "audit", True), ("other centred", "audit", False)]
    monkeypatch.setattr(settings, "other_question", lambda rounds, family: None)
    assert settings.judge_case("rounds", "given", "audit") == "reply to given"
    assert asked[2:] == [("given", "audit", False)]


def case_asked(monkeypatch, answer: object, *, reference: object = "a reference", lost: bool = False) -> object:
    """`_ask_case` where the reference is made so, and the answer to the case is this result or fault."""
    within: list[object] = []
    asked: list[tuple[object, ...]] = []

    @contextmanager
    def made(setting, one, number):
        assert (one.name, number) == ("a", 3)
        within.append(reference)
        yield reference
        within.clear()

    def ask(setting, name, one, given):
        asked.append((name, one.name, given, *within))
        if isinstance(answer, BaseException):
            raise answer
        return answer

    monkeypatch.setattr(sealed, "_reference", made)
    monkeypatch.setattr(sealed, "_ask", ask)
    whereabouts = SimpleNamespace(device_lost=lambda: lost)
    setting = Audited(reference=SimpleNamespace(whereabouts=whereabouts))
    try:
        return sealed._ask_case(setting, "sealed#3", case("a"), 3)
    finally:  # whatever a fake raises might be taken for the reference's refusal
        assert asked == ([] if reference is None else [("sealed#3", "a", reference, reference)])


def test_a_case_without_a_reference_is_asked_of_nobody(monkeypatch):
    assert case_asked(monkeypatch, "wrong", reference=None) == "left out"
    assert case_asked(monkeypatch, "wrong") == "wrong" and case_asked(monkeypatch, "right") == "right"


@pytest.mark.parametrize("refusal", [*REFUSALS, MemoryError, NotCarried])
def test_what_the_reference_refuses_in_a_case_is_no_fault_unless_its_device_broke(monkeypatch, refusal):
    assert case_asked(monkeypatch, refusal("no")) == "left out"
    if refusal is not MemoryError:
        with pytest.raises(JudgeError, match="broke in a sealed case"):
            case_asked(monkeypatch, refusal("no"), lost=True)


def test_what_a_case_ends_goes_on_up(monkeypatch):
    for fault in (wrong(), JudgeError("its process ended")):
        with pytest.raises(type(fault)):
            case_asked(monkeypatch, fault)
