"""What the cockpit's panels say: evidence, failures by cause, steering. Facts only; words are in the templates."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any

from django.db.models import Count, Max, Min, Q, Sum
from django.utils import timezone

from adaexplore_site.core.models import AuditEntry
from judge.devices.models import Device
from judge.values import Basis, Verdict
from memory.patterns.messages import cause_of, masked, readable
from memory.patterns.table import recognised
from search.algorithm.ranking import Standing
from search.engine.leases import QUEUED, RETRY
from search.live.budget import budget_panel
from search.live.saturation import saturation_of
from search.records.events import RecordedAct
from search.records.facts import verdict_of
from search.records.models import Node, Proposal, Run
from search.records.queries import RunSummary, run_summary
from search.records.steering_state import in_force
from search.records.winning import nothing_faster, standing_of

MAX_DOING = 12
MAX_CAUSES = 8


@dataclass(frozen=True)
class Doing:
    """A node in flight: what happens to it and since when."""

    number: int
    kind: str
    state: str  # proposing, judging, waiting (for a person), held (for its device)
    since: datetime
    age_s: float

    @property
    def word(self) -> str:
        return {
            "proposing": "is being proposed for",
            "judging": "is being judged for",
            "waiting": "has waited for a reply for",
            "held": "has waited for its device for",
        }[self.state]


@dataclass(frozen=True)
class Cost:
    """Calls of the model with what is known of tokens and price. Unknown is counted, never taken as zero."""

    calls: int
    tokens: int | None  # in and out, of the calls that reported them
    untold: int  # calls without token counts
    price_usd: Decimal | None  # of the calls with a price
    unpriced: int


@dataclass(frozen=True)
class Evidence:
    """The header: how far, how good, what now, at what cost. `best` beat PyTorch; where none did, `closest` is next
    to it, and `unproven` counts kernels that were measured faster and not audited."""

    summary: RunSummary
    doing: tuple[Doing, ...]
    best: Node | None
    closest: Node | None
    unproven: int
    cost: Cost

    @property
    def leader(self) -> Node | None:
        """The best, else the closest."""
        return self.best or self.closest

    @property
    def standing(self) -> Standing:
        best, closest = self.best, self.closest
        return Standing(best.number if best else None, closest.number if closest else None)

    @property
    def nothing(self) -> str:
        """What is said where no kernel beat PyTorch."""
        return nothing_faster(ended=self.summary.run.ended)

    @property
    def correct(self) -> int:
        return self.summary.verdicts.get(Verdict.PASS, 0)

    @property
    def failed(self) -> int:
        return self.summary.told - self.correct

    @property
    def percent(self) -> int:
        return min(100, round(100 * self.summary.told / self.summary.steps)) if self.summary.steps else 0


@dataclass(frozen=True)
class Cause:
    """Failures of one cluster. `name` is that of a known error; `example` what the first of them said, without its
    accidents."""

    key: str  # of memory's cluster; empty for nodes told before it kept any, until failures_rebuild
    name: str
    stage: str
    verdict: str
    reason: str
    example: str
    count: int
    first: int
    last: int
    percent: int

    @property
    def what(self) -> str:
        """One error at two stages is two causes: the stage tells them apart."""
        return f"{self.name or self.verdict.replace('_', ' ')} ({self.stage.replace('_', ' ')})"


def panel_context(run: Run) -> dict[str, Any]:
    """Template context of all panels. A handful of aggregate queries, none of which grows with the page."""
    now = timezone.now()
    evidence = evidence_of(run, now)
    causes = causes_of(run, evidence.failed)
    best, steering = evidence.leader, in_force(run)
    improved_at = best.told_at if best else None
    return {
        "run": run,
        "evidence": evidence,
        "unassisted": _unassisted(run) if evidence.best and evidence.best.touched else None,
        "improved_age_s": (now - improved_at).total_seconds() if improved_at else None,
        "saturation": saturation_of(run),
        "causes": causes,
        "causes_hidden": evidence.failed - sum(cause.count for cause in causes),
        "modelled": run.device.basis is Basis.MODELLED,
        "budget": None if run.origin == Run.Origin.IMPORT else budget_panel(run),
        "steering": steering,
        "steered": not steering.any and _steered(run),
        "history": run.origin == Run.Origin.IMPORT and run.events.of(RecordedAct).exists(),
        "held": run.device.state == Device.State.QUARANTINED and not run.ended,
    }


def _steered(run: Run) -> bool:
    """Whether people ever steered it, be it undone or used up by now."""
    acts = AuditEntry.objects.filter(object_type="run", object_id=str(run.pk))
    return acts.filter(verb__startswith="steer.").exists()


def evidence_of(run: Run, now: datetime) -> Evidence:
    """The header's facts, read now."""
    standing = standing_of(run.pk)
    return Evidence(
        summary=run_summary(run),
        doing=_doing(run, now),
        best=_judged(run, standing.best),
        closest=_judged(run, standing.closest),
        unproven=0 if standing.best is not None else _unproven(run),
        cost=_cost(run),
    )


def _judged(run: Run, number: int | None) -> Node | None:
    nodes = Node.objects.select_related("evaluation").defer("source", "evaluation__source", "evaluation__report")
    return None if number is None else nodes.get(run=run, number=number)


def _unassisted(run: Run) -> Node | None:
    """The best of those in which no person had a hand, if one of them beat PyTorch."""
    return _judged(run, standing_of(run.pk, unassisted=True).best)


def _unproven(run: Run) -> int:
    """Believed passes over eager that nobody audited."""
    faster = Q(evaluation__speedup_low__gt=1) | Q(evaluation__basis=Basis.MODELLED.value, evaluation__speedup__gt=1)
    passed = Node.objects.filter(faster, run=run, state=Node.State.TOLD, evaluation__doubt="", evaluation__audit="")
    return passed.filter(evaluation__verdict=Verdict.PASS.value).exclude(evaluation__basis=Basis.REPORTED.value).count()


def causes_of(run: Run, failed: int) -> list[Cause]:
    """Failures by cause, the most frequent first, at most `MAX_CAUSES`. Two queries."""
    rows = list(
        run.nodes.exclude(fingerprint="")
        .values("fingerprint")
        .annotate(count=Count("pk"), first=Min("number"), last=Max("number"), key=Max("failure__cluster__key"))
        .order_by("-count", "first")[:MAX_CAUSES]
    )
    firsts = run.nodes.filter(number__in=[row["first"] for row in rows]).select_related("evaluation")
    named = {node.number: node for node in firsts.defer("source", "evaluation__source", "evaluation__report")}
    return [_cause(row, named[row["first"]], failed) for row in rows]


def _cause(row: Mapping[str, Any], node: Node, failed: int) -> Cause:
    found = node.evaluation
    verdict = verdict_of(found.verdict if found else None, "", node.reason)
    reason = (found.reason if found else node.reason) or ""
    cause = cause_of(found.message if found else node.message)
    known = recognised(reason or verdict, cause)
    return Cause(
        key=row["key"] or "",
        name=known.pattern.title if known else "",
        stage=found.stage if found else "proposal",
        verdict=verdict,
        reason=reason,
        example=readable(masked(cause)),
        count=row["count"],
        first=row["first"],
        last=row["last"],
        percent=round(100 * row["count"] / failed) if failed else 0,
    )


def _doing(run: Run, now: datetime) -> tuple[Doing, ...]:
    nodes = run.nodes.filter(state__in=Node.IN_FLIGHT).order_by("number")
    return tuple(
        Doing(
            node.number,
            node.kind,
            _state_of(node, run),
            node.created_at,
            (now - node.created_at).total_seconds(),
        )
        for node in nodes[:MAX_DOING]
    )


def _state_of(node: Node, run: Run) -> str:
    """A node that no worker has taken yet waits for its device, which may judge another or do a preflight."""
    if run.proposer == "manual" and node.state == Node.State.PROPOSING:
        return "waiting"
    untaken = node.state == Node.State.JUDGING and node.lease_owner in ("", QUEUED, RETRY)
    return "held" if untaken else str(node.state)


def _cost(run: Run) -> Cost:
    tokens_known = Q(tokens_in__isnull=False) | Q(tokens_out__isnull=False)
    sums = (
        Proposal.objects.filter(node__run=run)
        .exclude(model="")
        .aggregate(
            calls=Count("pk"),
            counted=Count("pk", filter=tokens_known),
            tokens_in=Sum("tokens_in"),
            tokens_out=Sum("tokens_out"),
            priced=Count("pk", filter=Q(price_usd__isnull=False)),
            price=Sum("price_usd"),
        )
    )
    counted = sums["counted"]
    return Cost(
        calls=sums["calls"],
        tokens=(sums["tokens_in"] or 0) + (sums["tokens_out"] or 0) if counted else None,
        untold=sums["calls"] - counted,
        price_usd=sums["price"],
        unpriced=sums["calls"] - sums["priced"],
    )
