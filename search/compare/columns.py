"""The kernels of a comparison with everything that is known of each. Three queries, however many there are."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from django.db.models import Count, Q, QuerySet, Sum
from django.db.models.functions import Coalesce
from django.utils.translation import gettext as _

from adaexplore_site.core.plots import Axis
from judge.evaluations import facts as evaluation_facts
from judge.evaluations.cases import measure_of
from judge.evaluations.conditions import Layer, sandbox
from judge.evaluations.measures import Measure
from judge.evaluations.models import Evaluation, Measurement
from judge.evaluations.services import case_of
from judge.sources.highlighting import visible
from judge.values import Policy, Subject
from search.records.models import Node, Proposal, Run

MOST = 4
NAME_CHARS = 40
KEY = re.compile(r"([0-9]{1,12})\.([0-9]{1,9})")
ROWS = 200
LETTERS = "ABCD"
SHARES = Axis(1e-6, 10.0)  # of what is allowed
LIMIT = SHARES.at(1.0)


@dataclass(frozen=True, order=True)
class Key:
    """One kernel: search and node number."""

    run_id: int
    number: int

    def __str__(self) -> str:
        return f"{self.run_id}.{self.number}"


def node_of_search(key: Key) -> str:
    """How it is called in sentences."""
    return _("node %(number)d of search %(run_id)d") % vars(key)


def no_node(key: Key) -> str:
    """What is said where it does not exist."""
    return _("There is no node %(number)d in a search %(run_id)d.") % vars(key)


@dataclass(frozen=True)
class Asked:
    """The kernels in their order, each once, the baseline among them, and what could not be understood."""

    keys: tuple[Key, ...] = ()
    base: Key | None = None
    errors: tuple[str, ...] = ()


def key_of(word: str) -> Key | None:
    """`12.3` as a key; None for anything else."""
    found = KEY.fullmatch(word.strip())
    return Key(int(found[1]), int(found[2])) if found else None


def asked_of(words: Sequence[str], base: str = "") -> Asked:
    """What the parameters mean. `base` is a key among them; without one the first is the baseline."""
    given = [part for word in words[:50] for part in re.split(r"[\s,]+", word) if part]
    unknown = [word[:40] for word in given if key_of(word) is None]
    errors = [_("%(word)r is not a kernel. Use search.node, such as 12.3.") % {"word": word} for word in unknown]
    keys = list(dict.fromkeys(key for word in given if (key := key_of(word)) is not None))
    if len(keys) > MOST:
        errors.append(
            _("%(count)s kernels were given; the first %(most)s are shown.") % {"count": len(keys), "most": MOST}
        )
    wanted = key_of(base)
    if base and wanted not in keys[:MOST]:
        errors.append(
            _("The baseline %(base)r is none of these kernels; the first one is used instead.") % {"base": base[:40]}
        )
        wanted = None
    return Asked(tuple(keys[:MOST]), wanted or (keys[0] if keys else None), tuple(errors[:6]))


def names_of(query: Mapping[str, str], keys: Iterable[Key]) -> dict[Key, str]:
    """What the reader calls the kernels: `name-12.3=with tiles`, kept in the address."""
    given = {key: " ".join(query.get(f"name-{key}", "").split())[:NAME_CHARS] for key in keys}
    return {key: name for key, name in given.items() if name}


def without_missing(asked: Asked, known: Iterable[Key]) -> Asked:
    """The same with what does not exist left out, and said."""
    found = set(known)
    missing = [no_node(key) for key in asked.keys if key not in found]
    keys = tuple(key for key in asked.keys if key in found)
    base = asked.base if asked.base in found else (keys[0] if keys else None)
    return Asked(keys, base, (*asked.errors, *missing))


def swapped(asked: Asked) -> Asked:
    """The baseline and the kernel after it change places; the baseline's place stays the baseline's."""
    if asked.base is None or len(asked.keys) < 2:
        return asked
    keys = list(asked.keys)
    here = keys.index(asked.base)
    there = (here + 1) % len(keys)
    keys[here], keys[there] = keys[there], keys[here]
    return Asked(tuple(keys), keys[here], ())


@dataclass(frozen=True)
class Case:
    """One correctness round: what was given, whether it agreed, error and what was allowed."""

    name: str
    family: str
    ok: bool
    error: float | None
    allowed: float | None
    detail: str

    @property
    def bar(self) -> float | None:
        """Length of its bar, of 100: the error as a share of what was allowed, logarithmic; the limit lies at LIMIT."""
        if self.error is None or not self.allowed:
            return None
        return SHARES.at(self.error / self.allowed) if self.error > 0 else 0.0


@dataclass(frozen=True)
class Resources:
    """What the kernels of a candidate take: sums and largest values over its launches, None where nobody knows."""

    launches: int
    registers: int | None  # of the hungriest kernel
    shared_bytes: int | None  # the same
    spills: int | None  # of all


@dataclass(frozen=True)
class Calls:
    """Calls of the proposer. Unknown is None, never zero; `unpriced` and `untold` count what is missing in a sum."""

    count: int = 0
    tokens: int | None = None
    untold: int = 0
    price_usd: Decimal | None = None
    unpriced: int = 0


@dataclass(frozen=True)
class Column:
    """One kernel. `letter` is its place; `case` is the problem's case that its device judges,
    None for its plain constants and where somebody else judged."""

    letter: str
    key: Key
    node: Node
    measure: Measure | None
    over_compile: Measure | None
    raced: Measure | None  # over the best before it, measured side by side
    timing: Measurement | None
    case: str | None
    cases: tuple[Case, ...]
    kernels: tuple[dict[str, Any], ...]
    resources: Resources
    calls: Calls
    own_share: float | None  # of the GPU's time, as a profile found it
    policy: Policy = field(repr=False)

    @property
    def run(self) -> Run:
        return self.node.run

    @property
    def evaluation(self) -> Evaluation | None:
        return self.node.evaluation

    @property
    def basis(self) -> str:
        """Of its numbers; empty without any."""
        return self.evaluation.basis if self.evaluation else ""

    @property
    def label(self) -> str:
        return node_of_search(self.key)

    @property
    def tolerance(self) -> tuple[float, float] | None:
        """(error, what was allowed) of the round that came closest to its limit; None where no round says both."""
        return evaluation_facts.closest_round(self.evaluation.report.get("cases") if self.evaluation else None)

    @property
    def sealed(self) -> str:
        """What came of the sealed cases; empty where none were tried."""
        return evaluation_facts.sealed_check(self.evaluation.report.get("stages") if self.evaluation else None)

    @property
    def layers(self) -> list[Layer]:
        """Layers of the sandbox that it was judged in."""
        found = self.evaluation.report.get("environment", {}) if self.evaluation else {}
        return sandbox(found)


def columns(keys: Sequence[Key]) -> list[Column]:
    """These kernels in this order; what does not exist is missing."""
    wanted = Q()
    for key in keys:
        wanted |= Q(run_id=key.run_id, number=key.number)
    if not keys:
        return []
    rows = Node.objects.filter(wanted).select_related("run__problem", "run__device", "evaluation__device", "parent")
    nodes = {Key(node.run_id, node.number): node for node in rows}
    evaluations = [node.evaluation_id for node in nodes.values() if node.evaluation_id]
    times = Measurement.objects.filter(evaluation__in=evaluations, subject=Subject.CANDIDATE).defer("samples_us")
    timings = {row.evaluation_id: row for row in times}
    sums = Proposal.objects.filter(node__in=nodes.values()).order_by().values("node").annotate(**_SUMS)
    calls = {row["node"]: _calls(row) for row in sums}
    found = [nodes[key] for key in keys if key in nodes]
    return [
        _column(letter, node, timings.get(node.evaluation_id or 0), calls.get(node.pk, Calls()))
        for letter, node in zip(LETTERS, found, strict=False)
    ]


def _column(letter: str, node: Node, timing: Measurement | None, calls: Calls) -> Column:
    evaluation = node.evaluation
    kernels = tuple(evaluation_facts.kernels(evaluation))
    return Column(
        letter=letter,
        key=Key(node.run_id, node.number),
        node=node,
        measure=Measure.of(evaluation),
        over_compile=evaluation_facts.over_compile(evaluation),
        raced=measure_of(evaluation.report.get("versus_incumbent")) if evaluation else None,
        timing=timing,
        case=case_of(node.run.problem, evaluation.device) if evaluation and not evaluation.elsewhere else None,
        cases=tuple(_case(row) for row in (evaluation.report.get("cases", ()) if evaluation else ())[:ROWS]),
        kernels=kernels,
        resources=_resources(kernels),
        calls=calls,
        own_share=_own_share(evaluation),
        policy=Policy.from_json(node.run.problem.policy),
    )


def _case(row: dict[str, Any]) -> Case:
    return Case(
        name=visible(str(row.get("case") or "plain"))[:100],
        family=visible(str(row.get("family", "")))[:60],
        ok=bool(row.get("ok")),
        error=_number(row.get("error")),
        allowed=_number(row.get("allowed")),
        detail=visible(str(row.get("detail", "")))[:300],
    )


def _number(value: Any) -> float | None:
    return float(value) if isinstance(value, int | float) else None


def _resources(kernels: Sequence[dict[str, Any]]) -> Resources:
    def known(name: str) -> list[int]:
        return [int(row[name]) for row in kernels if isinstance(row[name], int | float)]

    registers, shared, spills = known("registers"), known("shared_bytes"), known("spills")
    return Resources(
        len(kernels), max(registers, default=None), max(shared, default=None), sum(spills) if spills else None
    )


_COUNTED = Q(tokens_in__isnull=False) | Q(tokens_out__isnull=False)
_SUMS: dict[str, Any] = {
    "count": Count("pk"),
    "told": Count("pk", filter=_COUNTED),
    "tokens": Sum(Coalesce("tokens_in", 0) + Coalesce("tokens_out", 0), filter=_COUNTED),
    "priced": Count("price_usd"),
    "price_usd": Sum("price_usd"),
}


def calls_summed(rows: QuerySet[Proposal]) -> Calls:
    """These calls as sums of what is known and counts of what is not. One query."""
    return _calls(rows.order_by().aggregate(**_SUMS))


def _calls(sums: Mapping[str, Any]) -> Calls:
    count = sums["count"]
    unknown = {"untold": count - sums["told"], "unpriced": count - sums["priced"]}
    return Calls(count, tokens=sums["tokens"], price_usd=sums["price_usd"], **unknown)


def _own_share(evaluation: Evaluation | None) -> float | None:
    profiles = [row["profile"] for row in evaluation_facts.findings(evaluation) if row["profile"]] if evaluation else []
    return sum(row["share"] for row in profiles[0] if row["own"]) if profiles else None
