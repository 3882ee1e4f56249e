"""Whether a rule helps: valid kernels with it in the prompt compared with prompts where it was withheld at random.

Sources of the intervals: E. B. Wilson 1927 (one share); R. G. Newcombe 1998, method 10 (difference); Yan and Su 2010
(strata); H. Robbins 1970 and S. Howard et al. 2021 (normal mixture, for any number of looks).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from math import log, sqrt

from django.db.models import Count, F, Q, QuerySet

from judge.values import Verdict
from memory.prompting.models import RuleUse

Z95 = 1.959963984540054
ALPHA = 0.05
EASY = 10.0  # weight (see Arms) that the mixture is tuned to; fixed beforehand, and flat from 20 to 1,000


@dataclass(frozen=True)
class Arms:
    """Two arms of one stratum: `n` tried and `k` good in the first, `m` and `j` in the second."""

    n: int
    k: int
    m: int
    j: int

    def __post_init__(self) -> None:
        if not (0 <= self.k <= self.n and 0 <= self.j <= self.m):
            raise ValueError("an arm cannot have more good ones than it has")

    @property
    def weight(self) -> float:
        """Mantel-Haenszel: nothing from a stratum with an empty arm."""
        return self.n * self.m / (self.n + self.m) if self.n and self.m else 0.0


def wilson(good: float, n: int, z: float = Z95) -> tuple[float, float]:
    """The score interval of a share; (0, 1) without trials.

    `good` may be a sum of parts. scipy's `binomtest` gives the same for whole numbers, 2,000 times slower: a library of
    rules asks for thousands.
    """
    if n == 0:
        return 0.0, 1.0
    share = good / n
    middle = (share + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * sqrt(share * (1 - share) / n + z * z / (4 * n * n))
    return max(0.0, middle - half), min(1.0, middle + half)


def level(among: int) -> float:
    """The part of ALPHA for one of `among` differences while new ones keep coming.

    An equal share of them all would not do: the first would have had all of it, the second half, the third a third.
    The k-th is never looked at by more than level(k), and level(1) + level(2) + ... is ALPHA.
    """
    count = max(among, 1)
    return ALPHA / (count * (count + 1))


def anytime_z(weight: float, among: int = 1) -> float:
    """Standard errors away from zero at which a difference is believed, however often it is looked at.

    With `among` differences looked at so far, and more to come, the chance that chance alone ever carries one of them
    so far is 5 % at most (Robbins' mixture for the looks, `level` for the differences). `weight` is that of the arms
    together.
    """
    ratio = weight / EASY
    return sqrt((1 + 1 / ratio) * (log(1 + ratio) + 2 * log(1 / level(among))))


def difference(strata: Iterable[Arms], z: float = Z95) -> tuple[float, float, float] | None:
    """(first share less the second, low, high); None when no stratum has both arms.

    One stratum gives Newcombe's hybrid score interval; several are weighed by Mantel and Haenszel, their distances to
    the score limits put together by squares.
    """
    used = [arms for arms in strata if arms.weight]
    total = sum(arms.weight for arms in used)
    if not used:
        return None
    middle, below, above = 0.0, 0.0, 0.0
    for arms in used:
        part = arms.weight / total
        first, second = arms.k / arms.n, arms.j / arms.m
        (low_1, high_1), (low_2, high_2) = wilson(arms.k, arms.n, z), wilson(arms.j, arms.m, z)
        middle += part * (first - second)
        below += part * part * ((first - low_1) ** 2 + (high_2 - second) ** 2)
        above += part * part * ((high_1 - first) ** 2 + (second - low_2) ** 2)
    return middle, max(-1.0, middle - sqrt(below)), min(1.0, middle + sqrt(above))


ENOUGH = 30  # nodes that each arm needs before a lift is given
IDS_AT_ONCE = 5000
NOW = F("rule__current__words")

# Endings that say nothing of the candidate: the judge's faults, and what it could not decide.
UNDECIDED = (
    Verdict.LOST,
    Verdict.CANCELLED,
    Verdict.SUSPECT,
    Verdict.UNSUPPORTED,
    Verdict.REFUSED_PROBLEM,
    Verdict.COMPILED_ONLY,
)
# Reasons of nodes without an evaluation where no kernel was tried.
NOT_TRIED = ("lost.attempts", "proposal.exhausted", "proposal.no_graph", "proposal.unsupported_graph")


@dataclass(frozen=True)
class Lift:
    """Told nodes of both arms and how many were valid. `estimate` with its 95 % interval; Nones below ENOUGH.

    That interval is right for one look at one rule. `sure_low` and `sure_high` hold for looks at any time at `among`
    rules: only these say that a rule helps or harms.
    """

    shown: int = 0
    shown_valid: int = 0
    withheld: int = 0
    withheld_valid: int = 0
    estimate: float | None = None
    low: float | None = None
    high: float | None = None
    sure_low: float | None = None
    sure_high: float | None = None
    among: int = 1

    @property
    def known(self) -> bool:
        return self.estimate is not None

    @property
    def harmful(self) -> bool:
        """Decisively below zero: the whole sure interval is."""
        return self.sure_high is not None and self.sure_high < 0

    @property
    def helpful(self) -> bool:
        """Decisively above zero."""
        return self.sure_low is not None and self.sure_low > 0

    @property
    def leans(self) -> bool:
        """The plain interval leaves zero out and the sure one does not: chance does that to some of many."""
        if self.low is None or self.high is None or self.harmful or self.helpful:
            return False
        return self.low > 0 or self.high < 0

    @classmethod
    def of(cls, strata: Iterable[Arms], among: int = 1) -> Lift:
        """From arms (shown first) of searches that withheld with the same probability, one stratum each.

        Told from ENOUGH nodes in each arm that have others to be compared with: those of searches that always show a
        rule, or never do, say nothing. The counts of a known lift are those that it was computed from.
        """
        arms = list(strata)
        compared = [one for one in arms if one.weight]
        found = difference(compared)
        if found is None or min(sum(one.n for one in compared), sum(one.m for one in compared)) < ENOUGH:
            return cls(*_counts(arms))
        sure = difference(compared, anytime_z(sum(one.weight for one in compared), among))
        assert sure is not None
        return cls(*_counts(compared), *found, *sure[1:], among=among)


def _counts(arms: Iterable[Arms]) -> tuple[int, int, int, int]:
    """Shown nodes, valid ones of them, withheld nodes, valid ones of them."""
    rows = [(one.n, one.k, one.m, one.j) for one in arms]
    return sum(n for n, *_ in rows), sum(k for _, k, *_ in rows), sum(m for *_, m, _ in rows), sum(j for *_, j in rows)


def rules_compared() -> int:
    """How many wordings of rules have been withheld often enough for a lift: those that people look at. One query.

    Versions that differ by their scope alone are one wording, as in `lifts_of`.
    """
    withheld = RuleUse.objects.filter(arm=RuleUse.Arm.CONTROL).order_by()
    return withheld.values("rule", "version__words").annotate(n=Count("pk")).filter(n__gte=ENOUGH).count()


def lifts_of(
    rule_ids: Iterable[int], *, since: Mapping[int, datetime] | None = None, among: int = 1
) -> Mapping[int, Lift]:
    """Lift of each rule over all uses of its current text; without such uses it is a Lift of zeros.

    An edit starts at zero: the effect of another text says nothing about this one. A new scope alone does not.

    `since` leaves out, rule by rule, what was completed before; `among` is how many rules are looked at
    (`rules_compared`), where these are called helpful or harmful. One query for thousands of rules.
    """
    ids = sorted(set(rule_ids))
    found: dict[int, list[Arms]] = defaultdict(list)
    for start in range(0, len(ids), IDS_AT_ONCE):
        uses = decided_uses().filter(rule__in=ids[start : start + IDS_AT_ONCE], version__words=NOW)
        for rule, arms in _strata(_later(uses, since) if since else uses):
            found[rule].append(arms)
    return {pk: Lift.of(found[pk], among) for pk in ids}


def decided_uses() -> QuerySet[RuleUse]:
    """Uses that count: shown or withheld at a completed node whose verdict is about its candidate."""
    experiment = RuleUse.objects.filter(arm__in=(RuleUse.Arm.TREATMENT, RuleUse.Arm.CONTROL), node__state="told")
    undecided = Q(node__evaluation__verdict__in=[verdict.value for verdict in UNDECIDED])
    return experiment.exclude(undecided).exclude(node__evaluation=None, node__reason__in=NOT_TRIED)


def _later(uses: QuerySet[RuleUse], since: Mapping[int, datetime]) -> QuerySet[RuleUse]:
    """For few rules: one condition each."""
    after = ~Q(rule__in=since)
    for rule, moment in since.items():
        after |= Q(rule=rule, node__told_at__gt=moment)
    return uses.filter(after)


def _strata(uses: QuerySet[RuleUse]) -> Iterable[tuple[int, Arms]]:
    """(rule, its arms) per probability of withholding: only under equal odds are both arms alike but for the rule."""
    good = Q(node__evaluation__verdict=Verdict.PASS.value)
    rows = (
        uses.values("rule", "arm", odds=F("node__run__memory__withhold"))
        .order_by("rule")
        .annotate(n=Count("pk"), k=Count("pk", filter=good))
    )
    counts: dict[tuple[int, float | None], dict[str, tuple[int, int]]] = defaultdict(dict)
    for row in rows:
        counts[row["rule"], row["odds"]][row["arm"]] = (row["n"], row["k"])
    for (rule, _), arms in counts.items():
        yield rule, Arms(*arms.get(RuleUse.Arm.TREATMENT, (0, 0)), *arms.get(RuleUse.Arm.CONTROL, (0, 0)))
