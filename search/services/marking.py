"""Kernels that people, or a later verdict, do not believe, and kernels that lead no list any more. What a search
decided stays as it was: a mark is about bests and winners."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

from django.db import transaction

from adaexplore_site.audit import ActionRefused, action_done
from judge.models import Evaluation
from judge.services.marks import REASON_CHARS, Marks, marks_of, marks_set
from search.events import event_write
from search.models import Node, Run
from search.selectors import best_node
from search.services.actions import action_record
from search.services.endings import best_payload
from search.services.texts import clip

if TYPE_CHECKING:
    from django.contrib.auth.models import AbstractBaseUser

QUARANTINE, FLAKY, RELEASE, RETIRE, RESTORE = (
    "kernel.quarantine", "kernel.flaky", "kernel.release", "kernel.retire", "kernel.restore",
)  # fmt: skip
VERBS = (QUARANTINE, FLAKY, RELEASE, RETIRE, RESTORE)
BY_PERSON = "a person does not believe it"


def kernel_mark(
    *, node: Node, verb: str, user: AbstractBaseUser | None, reason: str = "", key: str | None = None
) -> None:
    """Put a mark on a node's kernel, or take one away. It holds for equal kernels of the same problem and device.

    The same key, or what is so already, changes nothing. Raises ActionRefused where there is no verdict to doubt.
    """
    with transaction.atomic():
        if action_done(key=key, verb=verb) is not None:
            return
        evaluation = _verdict(node)
        before = _marks(evaluation)
        after = _after(verb, before, clip(" ".join(reason.split()), REASON_CHARS))
        if (after.doubt, after.retired) == (before.doubt, before.retired):
            return
        marks_put(node=node, evaluation=evaluation, verb=verb, before=before, after=after, user=user, key=key)


def kernel_failed_anew(*, node: Node, evaluation: Evaluation, fresh: Evaluation) -> bool:
    """Quarantine a kernel that passed once and failed when it was judged again, in the caller's transaction. False
    where it was in doubt before."""
    before = _marks(evaluation)
    if before.doubt:
        return False
    reason = f"judged again it ended: {fresh.verdict.replace('_', ' ')}" + (f", {fresh.reason}" if fresh.reason else "")
    after = replace(before, doubt=Evaluation.Doubt.QUARANTINED.value, doubt_reason=reason)
    marks_put(node=node, evaluation=evaluation, verb=QUARANTINE, before=before, after=after, user=None, key=None)
    return True


def kernel_unmark(
    *, node: Node, verb: str, before: dict[str, Any], user: AbstractBaseUser | None, key: str | None
) -> None:
    """Take the act `verb` back: the mark that held before it."""
    with transaction.atomic():
        evaluation = _verdict(node)
        now = _marks(evaluation)
        if verb in (RETIRE, RESTORE):
            then, back = replace(now, retired=before["retired"]), RETIRE if before["retired"] else RESTORE
        else:
            then = replace(now, doubt=before["doubt"], doubt_reason=before["doubt_reason"])
            back = _DOUBTING[then.doubt]
        if now != then:
            marks_put(node=node, evaluation=evaluation, verb=back, before=now, after=then, user=user, key=key)


def mark_stands(*, verb: str, after: Mapping[str, Any], doubt: str, retired: bool) -> bool:
    """Whether what an act said of a kernel still holds."""
    return bool(after["retired"] == retired if verb in (RETIRE, RESTORE) else after["doubt"] == doubt)


_DOUBTING = {"": RELEASE, Evaluation.Doubt.QUARANTINED.value: QUARANTINE, Evaluation.Doubt.FLAKY.value: FLAKY}


def marks_put(
    *,
    node: Node,
    evaluation: Evaluation,
    verb: str,
    before: Marks,
    after: Marks,
    user: AbstractBaseUser | None,
    key: str | None,
) -> None:
    """Write marks, say so in the log of every search that has the kernel, and audit it. In the caller's transaction."""
    same = {"problem": evaluation.problem_id, "device": evaluation.device_id}
    equal = Node.objects.filter(
        state=Node.State.TOLD,
        **{f"evaluation__{name}": value for name, value in same.items()},
        evaluation__candidate_hash=evaluation.candidate_hash,
    )
    held = dict[int, list[int]]()
    for run_id, number in equal.order_by("run", "number").values_list("run", "number"):
        held.setdefault(run_id, []).append(number)
    runs = {run.pk: run for run in Run.objects.select_for_update().filter(pk__in=held).order_by("pk")}
    bests = {pk: _best(pk) for pk in runs}
    marks_set(evaluation, after)
    if before.doubt != after.doubt:
        for pk, run in runs.items():
            _tell(run, held[pk], after, bests[pk], user)
    action_record(
        verb=verb,
        run=runs[node.run_id],
        user=user,
        key=key,
        before=asdict(before),
        after={"number": node.number, **asdict(after), **({} if user is not None else {"by": "judge"})},
    )


def _tell(run: Run, numbers: list[int], marks: Marks, before: int | None, user: AbstractBaseUser | None) -> None:
    best = best_node(run.pk)
    number = best.number if best else None
    for one in numbers:
        payload = {"number": one, "doubt": marks.doubt, "reason": clip(marks.doubt_reason, 200), "best": number}
        event_write(run=run, kind="kernel.marked", payload=payload, actor=user)
    if best is not None and best.evaluation is not None and number != before:
        event_write(run=run, kind="node.best", payload=best_payload(best, best.evaluation))


def _best(run_id: int) -> int | None:
    found = best_node(run_id)
    return found.number if found else None


def _verdict(node: Node) -> Evaluation:
    if node.evaluation_id is None:
        raise ActionRefused(f"Node {node.number} has no verdict: nothing of it could be doubted.")
    return Evaluation.objects.get(pk=node.evaluation_id)


def _marks(evaluation: Evaluation) -> Marks:
    return marks_of(
        problem_id=evaluation.problem_id,
        device_id=evaluation.device_id,
        candidate_hash=evaluation.candidate_hash,
    )


def _after(verb: str, before: Marks, reason: str) -> Marks:
    match verb:
        case "kernel.quarantine" | "kernel.flaky":
            doubt = verb.removeprefix("kernel.").replace("quarantine", "quarantined")
            return replace(before, doubt=doubt, doubt_reason=reason or BY_PERSON)
        case "kernel.release":
            return replace(before, doubt="", doubt_reason="")
        case "kernel.retire" | "kernel.restore":
            return replace(before, retired=verb == RETIRE)
    raise ActionRefused(f"There is no mark {verb!r}. Reload the page and try again.")
