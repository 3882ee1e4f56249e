"""What an audit makes of what it saw, case by case: no child is started here."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch

from judge.bench.audit import launch_checks, physics
from judge.bench.audit.launch_checks import Kernels, check_effect, note_decoys
from judge.bench.audit.physics import check_roofline, moved_bytes
from judge.bench.audit.share import Share, check_compiler, check_share, from_trace
from judge.bench.device.gpu_lock import GpuLock
from judge.bench.exchange.claims import LaunchesFail
from judge.bench.exchange.contact import SubjectFailed
from judge.bench.exchange.rows import LaunchedRow
from judge.bench.foreign.whereabouts import SILENT
from judge.bench.judging.asked_gradients import Asked
from judge.bench.judging.completion import Ended
from judge.values import DEFAULT_POLICY, Library, Verdict
from tests.judge.audit_setting import Audited, ended
from tests.judge.replies import forwarded, traced
from tests.judge.replies import launched as row


def kernels(*rows: LaunchedRow, graphs: int = 0) -> Kernels:
    return Kernels.of(
        forwarded(launches=[vars(one) | {"inside": list(one.inside)} for one in rows], compiled_graphs=graphs)
    )


# -- whose work is it --


def test_kernels_are_told_apart_by_origin_and_ending():
    found = kernels(
        row("ran"), row("failed", completed=0, raised=2, kind="unsupported"), row("idle", completed=0),
        row("made", "compiler"), row("lib", "library"), graphs=3,
    )  # fmt: skip
    assert (found.ran, found.always_failed) == ({"ran"}, {"failed"})
    assert (found.compiler, found.graphs, found.unsupported) == ({"made"}, 3, True)
    assert found.launched == {"ran", "failed"}
    assert not kernels(row("failed", completed=0, raised=1, kind="resources")).unsupported
    assert not kernels(row("ran", raised=1, kind="unsupported")).unsupported, "it ran in the end"
    assert Kernels.of(forwarded()).launched == frozenset()


@pytest.fixture
def answers(monkeypatch):
    """Who gives a right answer: one whose launches do nothing, and one whose launches fail."""
    told = {"noop": False, "raise": False}
    monkeypatch.setattr(
        launch_checks, "_survives", lambda setting, name, question, fail=False: told["raise" if fail else name]
    )
    return told


class Children:
    """The child without launches, which answers on or not; who is started and let go."""

    def __init__(self, answers: bool = True) -> None:
        self.contacts: dict[str, Any] = {"noop": SimpleNamespace(answers=answers)}
        self.said: list[object] = []

    def want(self, wanted: dict[str, str]) -> None:
        self.said.append(wanted)
        self.contacts |= wanted

    def release(self, *names: str) -> None:
        self.said.append(names)


def effect(setting: Audited, found: Kernels, children: Children | None = None) -> str:
    setting.subjects = children or Children()
    return check_effect(setting, found, None, "noop", "raise")


@pytest.mark.parametrize("library", list(Library))
def test_what_is_called_inside_an_interpreted_kernel_is_no_kernel_of_its_own(answers, library):
    setting, found = Audited(library=library), kernels(row("k", inside=("normal", "torch.pow")), row("honest"))
    assert found.inside == {"k": ("normal", "torch.pow")}
    if library is not Library.ALLOW:
        assert ended(lambda: effect(setting, found)) == (Verdict.DISHONEST, "audit", "audit.foreign_kernels")
        return
    effect(setting, found)
    assert [(one.code, one.data) for one in setting.findings] == [("library.inside", {"kernels": ["k"]})]
    assert "k calls normal, torch.pow," in setting.findings[0].message


@pytest.mark.parametrize("library", list(Library))
def test_no_kernel_of_its_own(answers, library):
    setting = Audited(library=library)
    if library is Library.REFUSE:
        assert ended(lambda: effect(setting, kernels())) == (Verdict.DISHONEST, "audit", "audit.foreign_kernels")
        return
    assert effect(setting, kernels()) == "no Triton kernel is launched"
    assert [(one.code, one.data) for one in setting.findings] == (
        [("library.share", {"share": 0.0})] if library is Library.LABEL else []
    )


@pytest.mark.parametrize("library", list(Library))
def test_launches_that_the_answer_does_not_need(answers, library):
    answers["noop"] = True
    setting = Audited(library=library)
    if library is Library.ALLOW:
        assert effect(setting, kernels(row("b"), row("a"))) == "the answer does not need them"
        assert [(one.code, one.data["kernels"]) for one in setting.findings] == [("kernel.decoy", ["a", "b"])]
        assert "launches of a, b that do nothing" in setting.findings[0].message
        return
    assert ended(lambda: effect(setting, kernels(row("a"))))[::2] == (Verdict.DISHONEST, "audit.noop_survives")


@pytest.mark.parametrize(("ran", "whose"), [("a", "1 kernel ran; without its"), ("ab", "2 kernels ran; without their")])
def test_kernels_that_the_answer_needs_are_counted(answers, ran, whose):
    found = effect(Audited(), kernels(*(row(name) for name in ran)))
    assert found == f"{whose} effect the answer is wrong"


@pytest.mark.parametrize("library", list(Library))
def test_a_kernel_that_always_fails_and_torch_answers(answers, library):
    answers["raise"] = True
    setting, found = Audited(library=library), kernels(row("k", completed=0, raised=1), row("a", completed=0, raised=1))
    if library is Library.ALLOW:
        assert effect(setting, found) == "0 kernels ran; without their effect the answer is wrong"
        assert [(one.code, one.data["kernels"]) for one in setting.findings] == [("library.fallback", ["a", "k"])]
        return
    with pytest.raises(Ended, match=r"audit\.fallback") as caught:
        effect(setting, found)
    assert caught.value.verdict is Verdict.DISHONEST and "every launch of a, k fails" in caught.value.message


def test_a_kernel_that_this_device_cannot_run_is_unsupported_under_every_policy(answers):
    answers["raise"] = True
    for library in Library:
        found = kernels(row("k", completed=0, raised=1, kind="unsupported"))
        setting = Audited(library=library)
        assert ended(lambda s=setting, f=found: effect(s, f)) == (Verdict.UNSUPPORTED, "audit", "run.unsupported")


def test_a_kernel_that_always_fails_is_no_fallback_where_nothing_else_answers(answers):
    setting = Audited()
    assert effect(setting, kernels(row("k", completed=0, raised=1), row("a"))).startswith("1 kernel ran")
    assert setting.codes == []


@pytest.mark.parametrize("library", list(Library))
def test_a_way_round_that_is_not_taken_is_a_label(answers, library):
    answers["raise"] = True
    setting = Audited(library=library)
    assert effect(setting, kernels(row("a"), row("b"))).startswith("2 kernels ran")
    assert setting.codes == ([] if library is Library.ALLOW else ["library.fallback"])


def test_decoys_are_kernels_that_nothing_launched_reaches():
    setting = Audited(defined={"main": ["helper"], "helper": ["deep"], "deep": [], "idle": ["other"], "other": []})
    note_decoys(setting, kernels(row("main"), row("unknown")))
    assert [(one.code, one.data["kernels"]) for one in setting.findings] == [("kernel.decoy", ["idle", "other"])]
    clean = Audited(defined={"main": ["main"]})
    note_decoys(clean, kernels(row("main")))
    assert clean.codes == []


@pytest.mark.parametrize(
    ("library", "failed", "answers_on", "started"),
    [
        (Library.LABEL, False, True, []),
        (Library.LABEL, False, False, [{"raise": "raise"}]),
        (Library.LABEL, True, True, [{"raise": "raise"}]),
        (Library.ALLOW, True, True, [{"raise": "raise"}]),
        (Library.ALLOW, False, False, []),
    ],
)
def test_one_child_does_without_launches_unless_a_verdict_depends_on_it(answers, library, failed, answers_on, started):
    """Who saw launches succeed before they fail could tell, and answer no more."""
    children = Children(answers_on)
    found = kernels(row("k"), row("l", completed=0, raised=1)) if failed else kernels(row("k"))
    effect(Audited(library=library), found, children)
    assert children.said == [*started, ("noop", "raise") if started else ("noop",)]


@pytest.mark.parametrize(
    ("outcome", "survives"), [(True, True), (False, False), (Ended, False), (SubjectFailed, False)]
)
def test_a_child_without_launches_is_asked_in_its_own_time(monkeypatch, outcome, survives):
    def asked(rounds, question):
        if outcome is Ended:
            raise Ended(Verdict.WRONG, "audit", "value.mismatch", "")
        if outcome is SubjectFailed:
            raise SubjectFailed("noop", "timeout", "forward", "")
        return outcome

    said: list[object] = []
    contact = SimpleNamespace(deadline=None, ask=said.append)
    setting = Audited(
        subjects=SimpleNamespace(contacts={"noop": contact}), rounds=lambda name, question: ("rounds", question)
    )
    monkeypatch.setattr(launch_checks, "survives", asked)
    assert launch_checks._survives(setting, "noop", "question") is survives and said == []
    assert 19 < contact.deadline.stage() <= 20
    assert launch_checks._survives(setting, "noop", "question", fail=True) is survives and said == [LaunchesFail]


# -- whose time is it --


def shared(modelled: bool = False, **spent: float) -> Share:
    """Kernels whose names begin with `own` are the candidate's, with `made` torch.compile's."""
    rows = tuple(sorted(spent.items(), key=lambda one: -one[1]))
    own, made = (frozenset(name for name in spent if name.startswith(start)) for start in ("own", "made"))
    return Share(rows, own, made, modelled)


def test_a_share_counts_each_kernel_once_and_is_zero_without_time():
    share = shared(own_a=1.0, own_b=2.0, gemm=5.0)
    assert (share.total_us, share.value, share.foreign) == (8.0, 0.375, [("gemm", 5.0)])
    assert shared(own_a=0.0).value == 0.0


def test_equal_names_of_a_trace_are_added_and_the_longest_comes_first():
    rows = [*traced(a=1.0, b=3.0), *traced(a=1.5, c=0.0)]
    share = from_trace(rows, kernels(row("a"), row("c")))
    assert share is not None and share.spent == (("b", 3.0), ("a", 2.5), ("c", 0.0))
    assert share.own == {"a", "c"} and not share.modelled


@pytest.mark.parametrize("library", list(Library))
@pytest.mark.parametrize(("own", "little"), [(29.0, True), (30.0, False), (31.0, False)])
def test_less_than_a_third_in_its_own_kernels(library, own, little):
    setting, share = Audited(library=library), shared(own=own, gemm=100.0 - own)
    if little and library is Library.REFUSE:
        assert ended(lambda: check_share(setting, share, kernels(row("own"))))[::2] == (
            Verdict.DISHONEST, "audit.foreign_kernels",
        )  # fmt: skip
        return
    words = check_share(setting, share, kernels(row("own")))
    assert words == f"{own:.0f}% of the time is in its own Triton kernels (traced on the GPU)"
    assert setting.codes == ["profile.kernels", *(["library.share"] if little and library is Library.LABEL else [])]


def test_what_a_small_share_says():
    setting = Audited()
    words = check_share(setting, shared(True, own=1.0, a=2.0, b=4.0, c=1.0, d=2.0), kernels(row("own")))
    assert words == "10% of the time is in its own Triton kernels (modelled)"
    (note,) = setting.findings
    assert note.message == f"{words}. The rest: b 40%, a 20%, d 20%"
    assert note.data["share"] == 0.1 and note.data["basis"] == "modelled"
    assert note.data["foreign"] == [["b", 4.0], ["a", 2.0], ["d", 2.0], ["c", 1.0]]


def test_nothing_more_is_said_where_no_kernel_was_launched():
    for library in (Library.LABEL, Library.REFUSE):
        setting = Audited(library=library)
        check_share(setting, shared(True, gemm=1.0), kernels())
        assert setting.codes == []


def test_a_profile_names_the_longest_kernels_and_whose_they_are():
    setting = Audited()
    check_share(setting, shared(own=70.0, gemm=30.0), kernels(row("own")))
    (note,) = setting.findings
    assert note.message == "2 kernels in one call: own 70.0 µs, gemm 30.0 µs"
    assert note.data["kernels"] == [["own", 70.0, True], ["gemm", 30.0, False]]


@pytest.mark.parametrize("library", list(Library))
@pytest.mark.parametrize("seen", ["traced", "launched", "graphs", "nothing"])
def test_torch_compile_inside(library, seen):
    share = shared(own=1.0, made_b=1.0, made_a=1.0) if seen == "traced" else None
    found = kernels(
        row("k"), *([row("made_c", "compiler")] if seen == "launched" else []), graphs=2 * (seen == "graphs")
    )
    setting = Audited(library=library)
    if seen != "nothing" and library is Library.REFUSE:
        assert ended(lambda: check_compiler(setting, share, found))[::2] == (Verdict.DISHONEST, "audit.foreign_kernels")
        return
    check_compiler(setting, share, found)
    if seen == "nothing" or library is Library.ALLOW:
        assert setting.codes == []
        return
    (note,) = setting.findings
    assert note.code == "library.compiler" and note.data["graphs"] == found.graphs
    assert note.data["kernels"] == {"traced": ["made_a", "made_b"], "launched": ["made_c"], "graphs": []}[seen]
    assert (
        note.message
        == {
            "traced": "uses torch.compile: 0 graphs, 2 of the kernels it runs (made_a, made_b)",
            "launched": "uses torch.compile: 0 graphs, 1 of the kernels it runs (made_c)",
            "graphs": "uses torch.compile: 2 graphs, 0 of the kernels it runs",
        }[seen]
    )


# -- could anything be this fast --


@pytest.fixture
def gpu(monkeypatch):
    """A GPU that moves a byte a nanosecond, with an L2 of 1000 bytes; who holds it is written down."""
    held: list[str] = []
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: SimpleNamespace(L2_cache_size=1000))
    monkeypatch.setattr(physics, "peak_bytes_per_us", lambda device: held.append(device) or 1000.0)
    return held


def question(read: int, written: int) -> SimpleNamespace:
    same = [torch.zeros(written, dtype=torch.uint8)]
    return SimpleNamespace(inputs=[torch.zeros(read, dtype=torch.uint8)], expected=SimpleNamespace(same=same))


def timed(us: float, model: object) -> Audited:
    return Audited(
        device="cuda:0",
        candidate_us=us,
        reference=SimpleNamespace(model=model, whereabouts=SILENT, gradients=Asked(DEFAULT_POLICY, None)),
    )


class Sum(torch.nn.Module):
    def forward(self, x):
        return x.sum()


class Pick(torch.nn.Module):
    def forward(self, x):
        return x.index_select(0, torch.tensor([1, 2]))


def test_what_the_bytes_allow_is_believed_up_to_a_tenth(gpu):
    asked = question(100_000, 3000)  # 100 us to read, 2 us to write what the L2 does not hold
    assert check_roofline(timed(91.9, Sum()), asked, GpuLock(None)).endswith("at 0.00 TB/s its bytes take 102.0 µs")
    assert check_roofline(timed(102.0 * physics.MARGIN, Sum()), asked, GpuLock(None)).startswith("91.8 µs")
    assert gpu == ["cuda:0", "cuda:0"]
    with pytest.raises(Ended) as caught:
        check_roofline(timed(91.0, Sum()), asked, GpuLock(None))
    assert (caught.value.verdict, caught.value.stage) == (Verdict.SUSPECT, "audit")
    assert caught.value.reason == "physics.roofline"
    assert "91.00 µs is less than the 102.00 µs in which 0.1 MB" in caught.value.message


def test_the_exact_graph_is_asked_when_in_doubt(gpu):
    assert check_roofline(timed(50.0, Pick()), question(100_000, 2), GpuLock(None)).endswith("take 0.0 µs")
    assert check_roofline(timed(50.0, "no module"), question(100_000, 2), GpuLock(None)).endswith("take 0.0 µs")


def test_moved_bytes_are_told_apart_by_direction():
    setting, asked = timed(1.0, Sum()), question(1000, 24)
    assert moved_bytes(setting, asked, exact=False) == (1000, 24) == moved_bytes(setting, asked, exact=True)
    assert moved_bytes(timed(1.0, Pick()), asked, exact=True) == (2 + 16, 24), "two bytes and their indices"
    untraceable = timed(1.0, type("Bad", (torch.nn.Module,), {"forward": lambda self, x: x[: int(x[0])]})())
    assert moved_bytes(untraceable, asked, exact=True) == (0, 0)
    assert moved_bytes(untraceable, asked, exact=False) == (1000, 24)


def test_the_peak_is_what_was_seen_or_what_the_bus_allows(monkeypatch):
    for seen, nominal in ((2.0, 3.0), (3.0, 2.0)):
        monkeypatch.setattr(physics, "bandwidth_bytes_per_us", lambda device, us=seen: us if device == "cuda:1" else 0)
        monkeypatch.setattr(physics, "nominal_bytes_per_us", lambda device, us=nominal: us if device == "cuda:1" else 0)
        assert physics.peak_bytes_per_us("cuda:1") == 3.0
