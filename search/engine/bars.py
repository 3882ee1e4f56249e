"""What a kernel of a search has to beat, and when numbers of two GPUs must not decide that."""

from __future__ import annotations

from collections.abc import Iterable

from django.db import transaction
from django.db.models import OuterRef, Subquery

from judge.batch.models import BatchJob
from judge.evaluations.models import MAY_BE_BEST, Evaluation, Race
from judge.evaluations.services import Marks, marks_locked, marks_set
from judge.values import Verdict
from search.records.facts import has_won, won_of
from search.records.models import Node, Run
from search.records.queries import BEST_FIRST

Bar = tuple[float | None, str]
MOST_RACES = 4  # evaluations of one kernel since the best one was judged
GIVEN_UP = (
    "It had a higher number than the best, on another GPU of the class, and {n} evaluations gave no race between the "
    "two: compare them as a pair on one GPU."
)


def bars_of(run_ids: Iterable[int]) -> dict[int, Bar]:
    """By search what a kernel has to beat: the speedup of the best so far, None without one, and its source. Three
    queries.

    The source is empty where it beat nothing: raced with such a one, a kernel that beats PyTorch might tie and stay
    unaudited.
    """
    audited = Evaluation.objects.filter(MAY_BE_BEST, speedup__isnull=False)
    passed = Node.objects.filter(state=Node.State.COMPLETED, evaluation__verdict=Verdict.PASS.value)
    passed = passed.filter(evaluation__in=audited, run=OuterRef("pk")).order_by(*BEST_FIRST)
    runs = Run.objects.filter(pk__in=list(run_ids)).annotate(best=Subquery(passed.values("pk")[:1]))
    best: dict[int, int | None] = dict(runs.values_list("pk", "best"))
    rows = Node.objects.filter(pk__in=[pk for pk in best.values() if pk is not None])
    figures = rows.values_list("run_id", "source", "evaluation_id", "evaluation__speedup")
    nodes = {run_id: (source, evaluation, speedup) for run_id, source, evaluation, speedup in figures}
    won = won_of([evaluation for _, evaluation, _ in nodes.values() if evaluation is not None])
    bars: dict[int, Bar] = dict.fromkeys(best, (None, ""))
    for run_id, (source, evaluation, speedup) in nodes.items():
        bars[run_id] = speedup, source if evaluation in won else ""
    return bars


def bar_of(run_id: int) -> Bar:
    """The bar of one search."""
    return bars_of([run_id]).get(run_id, (None, ""))


def wants_race(evaluation: Evaluation, best: Node | None) -> bool:
    """Whether a kernel would become the best by numbers of two GPUs of one class, which are not compared: it has to
    meet the best on one GPU first. Its next evaluation races them, and is audited where it wins.

    A best that beat nothing is raced with nobody. Where MOST_RACES evaluations gave no race, the kernel is marked as
    flaky, which a person can take back, and wants none any more.
    """
    bar = best.evaluation if best is not None else None
    if bar is None or not evaluation.device.pooled or evaluation.gpu == bar.gpu or not evaluation.may_be_best:
        return False
    if (evaluation.speedup or 0.0) <= (bar.speedup or 0.0) or evaluation.candidate_hash == bar.candidate_hash:
        return False
    if Race.objects.filter(evaluation=evaluation, second_hash=bar.candidate_hash).exists() or not has_won(bar):
        return False
    answered = BatchJob.objects.filter(
        device_id=evaluation.device_id,
        problem_id=evaluation.problem_id,
        candidate_hash=evaluation.candidate_hash,
        imported_at__gt=bar.created_at,
    ).count()
    if answered < MOST_RACES:
        return True
    with transaction.atomic():
        before = marks_locked(**evaluation.kernel)
        after = Marks(Evaluation.Doubt.FLAKY, GIVEN_UP.format(n=answered), before.retired)
        marks_set(evaluation, before, after)
    evaluation.doubt, evaluation.doubt_reason = after.doubt, after.doubt_reason
    return False
