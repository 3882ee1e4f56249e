"""Asks for another look at decided rules: those that harm, and those of a Triton version that has passed.

Nothing is retired here. `Rule.recheck` says in a sentence why; a person's next decision moves `decided_at` on, and only
what came after it can ask again.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from django.db.models import Min, QuerySet
from packaging.version import InvalidVersion, Version

from memory.prompting.lift import Lift, lifts_of, rules_compared
from memory.prompting.models import RuleUse, RunMemory
from memory.rules.models import Rule
from memory.rules.toolchains import triton_in

IN_USE = (Rule.State.APPROVED, Rule.State.PROPOSED)  # proposed ones stand in prompts with trust "auto"


def rules_recheck() -> list[int]:
    """Mark every rule in use that has a reason and is not marked yet; returns their ids. Idempotent."""
    return sorted({*_recheck_harmful(), *_recheck_outdated()})


def _recheck_harmful() -> list[int]:
    """Rules whose sure interval lies below zero, over all uses and over those since the last decision.

    Looked at every ten minutes, all of them: a plain interval would accuse useless rules one after the other.
    """
    rules = {rule.pk: rule for rule in _unmarked().filter(pk__in=RuleUse.objects.values("rule"))}
    among = rules_compared()
    bad = [pk for pk, lift in lifts_of(rules, among=among).items() if lift.harmful]
    decided = {pk: moment for pk in bad if (moment := rules[pk].decided_at) is not None}
    lifts = lifts_of(bad, since=decided, among=among)
    return _mark({pk: harm_words(lift) for pk, lift in lifts.items() if lift.harmful})


def harm_words(lift: Lift) -> str:
    """Why a rule is proposed for retirement, with its figures."""
    assert lift.estimate is not None and lift.low is not None and lift.high is not None
    low, high = sorted((abs(100 * lift.low), abs(100 * lift.high)))
    return (
        f"Retire it? Prompts with it gave {abs(100 * lift.estimate):.0f} points fewer valid kernels "
        f"(95 % interval {low:.0f} to {high:.0f}; n={lift.shown} with it, {lift.withheld} without); "
        f"{_sure(lift.among)}."
    )


def _sure(among: int) -> str:
    return f"holds for {among} rules looked at often" if among > 1 else "holds however often one looks"


def _recheck_outdated() -> list[int]:
    """Rules bound to Triton versions that were decided before the newest one was first in use."""
    seen = tritons_seen()
    if not seen:
        return []
    newest = max(seen, key=Version)
    first, device = seen[newest]
    words = f"Triton {newest} is in use on {device} since it was decided. Does it still hold there?"
    scoped = _unmarked().exclude(current__scope_triton="").filter(current__isnull=False)
    late = [rule.pk for rule in scoped if (rule.decided_at or rule.created_at) < first]
    return _mark(dict.fromkeys(late, words)) if len(seen) > 1 else []


def tritons_seen() -> Mapping[str, tuple[datetime, str]]:
    """Triton version -> when a search was first started under it, and on which device."""
    rows = (
        RunMemory.objects.filter(elsewhere={})
        .exclude(toolchain="")
        .values_list("toolchain", "run__device__name")
        .annotate(first=Min("frozen_at"))
    )
    found: dict[str, tuple[datetime, str]] = {}
    for toolchain, device, first in rows:
        version = triton_in(toolchain)
        if _readable(version) and (version not in found or first < found[version][0]):
            found[version] = (first, device)
    return found


def _readable(version: str) -> bool:
    try:
        Version(version)
    except InvalidVersion:
        return False
    return True


def _unmarked() -> QuerySet[Rule]:
    return Rule.objects.filter(state__in=IN_USE, recheck="").select_related("current")


def _mark(words: Mapping[int, str]) -> list[int]:
    """Write each reason unless somebody was faster; ids of those written."""
    return [pk for pk, why in words.items() if _one(pk).update(recheck=why[:200])]


def _one(pk: int) -> QuerySet[Rule]:
    return Rule.objects.filter(pk=pk, recheck="", state__in=IN_USE)
