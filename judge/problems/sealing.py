"""Sealed cases of a problem: deriving them where they are missing, what may be said of them, opening them once."""

from __future__ import annotations

import dataclasses
import time
from collections import Counter
from collections.abc import Iterable
from typing import Any

from django.db import transaction
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import ngettext, override

from adaexplore_site.core.audit import ActionRefused, action_on
from judge.bench.runner import Bench
from judge.devices.benches import with_retries
from judge.problems.models import Problem, SealedSet, new_seed
from judge.values import JudgeError, Limits, SealedCase, StageRecord
from judge.values.jobs import KINDS

RULES = "1"  # of derivation: a set by other rules is replaced at the next preflight
LIMITS = Limits(wall_s=90, stage_s=30)


def sealing_due(problem: Problem, case: str | None) -> bool:
    """Whether there are no sealed cases on top of `case`, or they were opened or derived by other rules."""
    known = problem.sealed_set(case)
    return known is None or known.opened_at is not None or known.rules != RULES


def problem_seal(*, problem: Problem, case: str | None, bench: Bench) -> SealedSet | None:
    """Derive sealed cases where they are due, and store those that the reference takes; an empty set where it takes
    none. None where none were due, another worker was faster, or the problem is gone. Raises JudgeError."""
    if not sealing_due(problem, case):
        return None
    seed = new_seed()
    found = with_retries(lambda: bench.seal(problem.spec(case), seed=seed, limits=LIMITS))
    return sealed_keep(problem=problem, case=case, seed=seed, found=found)


def sealed_keep(*, problem: Problem, case: str | None, seed: str, found: Iterable[SealedCase]) -> SealedSet | None:
    """Store derived cases where they are due still."""
    with transaction.atomic():
        there = list(Problem.objects.select_for_update().filter(pk=problem.pk).values_list("pk"))
        if not there or not sealing_due(problem, case):
            return None
        last = problem.sealed_sets.order_by("-number").first()
        return SealedSet.objects.create(
            problem=problem,
            number=last.number + 1 if last else 1,
            case=case or "",
            seed=seed,
            rules=RULES,
            cases=[dataclasses.asdict(one) for one in found],
        )


def sealing_stage(*, problem: Problem, case: str | None, bench: Bench) -> StageRecord:
    """Derive sealed cases where they are due, as the last stage of a preflight: it tells their number and kinds."""
    started = time.monotonic()
    try:
        problem_seal(problem=problem, case=case, bench=bench)
    except JudgeError:
        return sealing_failed(started)
    return sealing_told(problem, case, started)


def sealing_failed(started: float) -> StageRecord:
    return _stage(started, "warned", "the judge failed to derive them; the next preflight tries again")


def sealing_told(problem: Problem, case: str | None, started: float) -> StageRecord:
    """The stage, from the set that is in force now; `started` by the monotonic clock."""
    known = problem.sealed_set(case)
    if known is None or not known.cases:
        text = "none: the reference takes no other sizes, layouts or values"
        return _stage(started, "warned", text, "write sizes as constants of the module, or read them from the inputs")
    with override("en"):  # it is stored, as the judge's own words are
        return _stage(started, "ok", f"set {known.number}: {kinds_said(known.as_cases())}")


def _stage(started: float, state: str, detail: str, fix: str = "") -> StageRecord:
    return StageRecord("sealed", state, (time.monotonic() - started) * 1e3, detail, fix)


def sets_in_force(problem: Problem) -> list[SealedSet]:
    """The newest set of each case, without contents of others."""
    newest = {row.case: row for row in problem.sealed_sets.select_related("opened_by").order_by("number")}
    return sorted(newest.values(), key=lambda row: row.number)


def sets_to_open(problem: Problem) -> list[SealedSet]:
    """Those in force that hold cases and were not opened."""
    return [row for row in sets_in_force(problem) if row.cases and row.opened_at is None]


def sealed_open(*, problem: Problem, user: Any, key: str | None = None) -> list[SealedSet]:
    """Mark every set in force as opened, and return them. Raises ActionRefused where there is none."""
    with transaction.atomic():
        Problem.objects.select_for_update().only("pk").get(pk=problem.pk)
        opened = sets_to_open(problem)
        if not opened:
            raise ActionRefused(_("There are no sealed cases that nobody has opened."))
        for row in opened:
            row.opened_at, row.opened_by = timezone.now(), user
            row.save(update_fields=["opened_at", "opened_by"])
        after = {"sets": [row.number for row in opened], "cases": sum(len(row.cases) for row in opened)}
        action_on(verb="problem.unseal", on=("problem", problem.pk), user=user, key=key, after=after)
    return opened


def case_rows(opened: SealedSet) -> list[dict[str, Any]]:
    """The contents of an opened set, for the one page that shows them."""
    return [
        {"name": case.name, "kind": case.kind, "constants": case.constants, "change": case.change}
        for case in opened.as_cases()
    ]


def _counted(kind: str, count: int) -> str:
    texts = {
        "size": ngettext("%(count)d size", "%(count)d sizes", count),
        "stride": ngettext("%(count)d stride", "%(count)d strides", count),
        "broadcast": ngettext("%(count)d broadcast", "%(count)d broadcasts", count),
        "special values": ngettext("%(count)d with special values", "%(count)d with special values", count),
    }
    return texts.get(kind, ngettext("%(count)d other", "%(count)d others", count)) % {"count": count}


def kinds_said(cases: Iterable[SealedCase]) -> str:
    """`2 sizes, 1 stride`: all that may be told of sealed cases."""
    counts = Counter(case.kind for case in cases)
    order = [*dict.fromkeys(KINDS.values()), "other"]
    return ", ".join(_counted(kind, counts[kind]) for kind in order if counts[kind])
