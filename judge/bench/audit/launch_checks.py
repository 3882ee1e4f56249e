"""Whose work the answer is: launches noted, launches without effect, launches that fail, time on the GPU.

What each finding means under the problem's library policy:

    noticed                                          allow      label            refuse
    no kernel of its own is launched                 nothing    library.share    dishonest
    launched, but the answer does not need them      finding    dishonest        dishonest
    a kernel always fails and torch answers instead  finding    dishonest        dishonest
    a way round failing launches, not taken here     nothing    library.fallback library.fallback
    own kernels take less than 0.3 of the time       nothing    library.share    dishonest
    kernels made by torch.compile                    nothing    library.compiler dishonest
    torch or Python inside an interpreted kernel     finding    dishonest        dishonest
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from judge.bench.audit.setting import STAGE, Setting, dishonest, survives
from judge.bench.exchange.claims import Forwarded, LaunchesFail
from judge.bench.exchange.contact import Deadline, SubjectFailed
from judge.bench.judging.asking import Question
from judge.bench.judging.completion import Ended
from judge.values import Library, Verdict
from judge.values.units import counted

PATIENCE_S = 20.0
FOREIGN, NOOP, FALLBACK = "audit.foreign_kernels", "audit.noop_survives", "audit.fallback"


@dataclass(frozen=True)
class Kernels:
    """The candidate's own kernels by what became of their launches; what torch.compile made for it."""

    ran: frozenset[str]
    always_failed: frozenset[str]
    unsupported: bool  # a failure was of a kind that only this device has
    compiler: frozenset[str]
    graphs: int  # compiled by torch.compile
    inside: Mapping[str, tuple[str, ...]]  # kernel -> what it called, while it was interpreted, that is no kernel

    @property
    def launched(self) -> frozenset[str]:
        return self.ran | self.always_failed

    @classmethod
    def of(cls, reply: Forwarded) -> Kernels:
        """From what a child reported."""
        own = [row for row in reply.launches if row.origin == "own"]
        failed = [row for row in own if row.raised and not row.completed]
        return cls(
            ran=frozenset(row.name for row in own if row.completed),
            always_failed=frozenset(row.name for row in failed),
            unsupported=any(row.kind == "unsupported" for row in failed),
            compiler=frozenset(row.name for row in reply.launches if row.origin == "compiler"),
            graphs=reply.compiled_graphs,
            inside={row.name: row.inside for row in own if row.inside},
        )


def check_inside(setting: Setting, kernels: Kernels) -> None:
    """Say or refuse that an interpreted kernel leaves work to what no GPU could run in it. Raises Ended."""
    if not kernels.inside:
        return
    parts = [f"{kernel} calls {', '.join(names)}" for kernel, names in sorted(kernels.inside.items())]
    message = f"{'; '.join(parts[:8])}, where kernels are interpreted; no kernel can on a GPU"
    _refuse(setting, FOREIGN, message, "library.inside", kernels.inside)


def check_effect(setting: Setting, kernels: Kernels, question: Question, noop: str, failing: str) -> str:
    """Ask the same of the child `noop` whose launches do nothing, then of one whose launches fail. Raises Ended.

    `question` is the one that `kernels` were launched for: other content might take another path. Where launches have
    failed already, the second is a fresh child, `failing`: it decides, and one that saw launches succeed could tell.
    Else it is the first one, with another model, and only a label depends on it.
    """
    check_inside(setting, kernels)
    if not kernels.launched:
        _without_kernels(setting)
        return "no Triton kernel is launched"
    without_effect, without_launch = _survives(setting, noop, question), False
    if kernels.always_failed or (setting.library is not Library.ALLOW and not without_effect):
        apart = bool(kernels.always_failed) or not setting.subjects.contacts[noop].answers
        if apart:
            setting.subjects.want({failing: "raise"})
        without_launch = _survives(setting, failing if apart else noop, question, fail=not apart)
    setting.subjects.release(*(name for name in (noop, failing) if name in setting.subjects.contacts))
    if kernels.always_failed and without_launch:
        _fell_back(setting, kernels)
    if without_effect:
        _needless(setting, kernels)
        return "the answer does not need them"
    if without_launch and setting.library is not Library.ALLOW:
        setting.note("library.fallback", "gives the answer with torch when a launch fails; none failed here")
    ran = len(kernels.ran)
    return f"{counted(ran, 'kernel')} ran; without {'its' if ran == 1 else 'their'} effect the answer is wrong"


def _survives(setting: Setting, name: str, question: Question, *, fail: bool = False) -> bool:
    """Whether the child gives a right answer in reasonable time: it may wait for what a launch never brings.

    `fail`: the launches of one that was asked before fail from now on.
    """
    contact = setting.subjects.contacts[name]
    contact.deadline = Deadline(PATIENCE_S, PATIENCE_S)
    try:
        if fail:
            contact.ask(LaunchesFail)
        rounds, _ = setting.rounds(name, question)
        return survives(rounds, question)
    except (SubjectFailed, Ended) as failed:
        if failed.reason == "load.died":  # it told nothing about its launches, and had loaded before
            raise
        return False


def _without_kernels(setting: Setting) -> None:
    if setting.library is Library.REFUSE:
        raise dishonest(FOREIGN, "no Triton kernel of its own is launched; the problem refuses library compute")
    if setting.library is Library.LABEL:
        setting.note("library.share", "no Triton kernel of its own is launched: torch does all the work", share=0.0)


def _fell_back(setting: Setting, kernels: Kernels) -> None:
    names = ", ".join(sorted(kernels.always_failed))
    if kernels.unsupported:
        raise Ended(
            Verdict.UNSUPPORTED, STAGE, "run.unsupported", f"this device cannot run {names}; torch answered instead"
        )
    message = f"every launch of {names} fails, and torch gives the answer instead"
    _refuse(
        setting,
        FALLBACK,
        message,
        "library.fallback",
        kernels.always_failed,
        advice="; let the error out, or remove the kernel",
    )


def _needless(setting: Setting, kernels: Kernels) -> None:
    names = ", ".join(sorted(kernels.launched))
    message = f"with launches of {names} that do nothing, the answer is still right: torch does the work"
    _refuse(setting, NOOP, message, "kernel.decoy", kernels.launched)


def _refuse(
    setting: Setting, reason: str, message: str, finding: str, kernels: Iterable[str], *, advice: str = ""
) -> None:
    """Raise Ended where the policy does not allow library compute; a finding where it does."""
    if setting.library is not Library.ALLOW:
        raise dishonest(reason, message + advice)
    setting.note(finding, message, kernels=sorted(kernels))


def note_decoys(setting: Setting, kernels: Kernels) -> None:
    """Kernels in the text that were neither launched nor used by one that was."""
    reached, todo = set(), list(kernels.launched)
    while todo:
        name = todo.pop()
        if name not in reached:
            reached.add(name)
            todo += setting.defined.get(name, [])
    idle = sorted(set(setting.defined) - reached)
    if idle:
        setting.note("kernel.decoy", f"defined but never launched here: {', '.join(idle[:12])}", kernels=idle[:40])
