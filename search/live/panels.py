"""The panels of the cockpit: evidence, failures by cause, budget, steering. Facts only; the templates have the text."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from itertools import accumulate
from typing import Any

from django.db.models import Count, Max, Min, Q, Sum
from django.utils import timezone
from django.utils.translation import gettext, ngettext
from django.utils.translation import gettext_lazy as _

from adaexplore_site.core.models import AuditEntry
from judge.devices.models import Device
from judge.templatetags.units import duration
from judge.values import Basis, Verdict
from memory.patterns.messages import cause_of, masked, readable
from memory.patterns.table import recognised
from search.algorithm.ranking import HIGHEST, Standing
from search.compare.columns import Calls, calls_summed
from search.engine.waiting import Carrying, carrying
from search.ledger.books import books_of, ledger_of, limits_of
from search.ledger.limits import Forecast, Ledger, Range, RunLimits, forecast, limit_amounts
from search.ledger.spending import NOTHING, Amount, calls_by_node
from search.proposers import BY_HAND
from search.records.events import RecordedAct
from search.records.facts import standing_of, verdict_of
from search.records.log import in_force, params_in_force
from search.records.models import Node, Proposal, Run
from search.records.queries import RunSummary, run_summary

WARN_ABOVE = 0.1  # of the correct nodes
_BLIND_TO_REWARD = ("independent", "chain")  # they never look at it


@dataclass(frozen=True)
class Saturation:
    """`top` of `correct` kernels share the highest reward, which all speedups from `cap` up get."""

    top: int
    correct: int
    cap: float = HIGHEST

    @property
    def percent(self) -> int:
        return round(100 * self.top / self.correct)


def saturation_of(run: Run) -> Saturation | None:
    """None unless more than a tenth share it and differ in speed. One aggregate query.

    The logarithmic reward is scaled by the best, so only equals of the best share its highest value.
    """
    params = params_in_force(run)
    if params.log or params.policy in _BLIND_TO_REWARD:
        return None
    capped = Q(evaluation__speedup__gte=HIGHEST)
    found = Node.objects.filter(run=run, state=Node.State.COMPLETED, evaluation__verdict=Verdict.PASS.value).aggregate(
        correct=Count("pk"),
        top=Count("pk", filter=capped),
        slowest=Min("evaluation__speedup", filter=capped),
        fastest=Max("evaluation__speedup", filter=capped),
    )
    if found["top"] <= WARN_ABOVE * found["correct"] or found["slowest"] == found["fastest"]:
        return None
    return Saturation(found["top"], found["correct"])


RECENT = 200  # completed steps that the forecast looks at
TITLES = {
    "steps": _("Steps"),
    "evaluations": _("Evaluations"),
    "device_ms": _("Device time"),
    "tokens": _("Tokens"),
    "usd": _("Money"),
}


@dataclass(frozen=True)
class BudgetLine:
    """One kind. Texts carry their units; `share` and `held_share` are percent of the limit."""

    name: str
    title: str
    spent: str
    held: str = ""
    limit: str = ""
    to_come: str = ""
    note: str = ""
    share: int = 0
    held_share: int = 0


@dataclass(frozen=True)
class BudgetPanel:
    """The panel. `goals` are sentences; `saved_s` device seconds not spent, thanks to `reused` known verdicts."""

    lines: tuple[BudgetLine, ...]
    goals: tuple[str, ...]
    forecast: Forecast
    reused: int
    saved_s: float


def budget_panel(run: Run) -> BudgetPanel:
    """The panel's facts, read now. Nothing in it grows with the page."""
    limits, (ledger, calls) = limits_of(run), books_of(run.pk)
    coming = forecast_of(run, limits, ledger, billed=calls != NOTHING)
    saved = Node.objects.filter(run=run, reused=True).aggregate(n=Count("pk"), ms=Sum("evaluation__wall_ms"))
    return BudgetPanel(
        lines=tuple(_lines(limits, ledger, calls, coming)),
        goals=goals(limits),
        forecast=coming,
        reused=saved["n"],
        saved_s=(saved["ms"] or 0.0) / 1000,
    )


def forecast_of(run: Run, limits: RunLimits, ledger: Ledger, *, billed: bool) -> Forecast:
    """For the steps that are not completed yet, from the newest completed ones. An ended run has none to come."""
    completed = Node.objects.filter(run=run).completed().order_by("-told_order")
    rows = list(completed.values_list("pk", "created_at", "told_at", "reused", "evaluation__wall_ms")[:RECENT])
    known = list(calls_by_node(run.pk, [row[0] for row in rows] if billed else []).values())
    return forecast(
        steps_left=0 if run.ended else max(limits.steps - ledger.spent.steps, 0),
        concurrency=run.concurrency,
        step_s=[max((ended - born).total_seconds(), 0.0) for _, born, ended, _, _ in rows if ended],
        device_s=[0.0 if reused or ms is None else ms / 1000 for _, _, _, reused, ms in rows],
        tokens=[call.tokens for call in known if not call.untold],
        usd=[call.usd for call in known if not call.unpriced],
    )


def _lines(limits: RunLimits, ledger: Ledger, calls: Amount, coming: Forecast) -> list[BudgetLine]:
    bounds = limit_amounts(limits)
    billed = calls != NOTHING
    return [
        _line(name, bounds.get(name), ledger, calls, coming)
        for name in TITLES
        if billed or name in bounds or name not in ("tokens", "usd")
    ]


def _line(name: str, limit: Any, ledger: Ledger, calls: Amount, coming: Forecast) -> BudgetLine:
    spent, held = getattr(ledger.spent, name), getattr(ledger.reserved, name)
    known, missing = {"tokens": (calls.tokens, calls.untold), "usd": (calls.usd, calls.unpriced)}.get(name, (spent, 0))
    ranges = {"device_ms": coming.device_s, "tokens": coming.tokens, "usd": coming.usd}
    amount = amount_text(name, known)
    return BudgetLine(
        name=name,
        title=str(TITLES[name]),
        spent=gettext("at least %(amount)s") % {"amount": amount} if missing else amount,
        held=amount_text(name, held) if held and limit is not None else "",
        limit="" if limit is None else amount_text(name, limit),
        to_come=_to_come(name, ranges.get(name), coming),
        note=_missing(name, missing),
        share=_percent(spent, limit),
        held_share=_percent(held, limit),
    )


def _missing(name: str, count: int) -> str:
    if not count:
        return ""
    if name == "usd":
        return ngettext("%(count)d call unpriced", "%(count)d calls unpriced", count) % {"count": count}
    text = ngettext("%(count)d call without a count", "%(count)d calls without a count", count)
    return text % {"count": count}


def _to_come(name: str, span: Range | None, coming: Forecast) -> str:
    if not coming.steps:
        return ""
    if name == "steps":
        return gettext("%(steps)d to come") % {"steps": coming.steps}
    if name == "evaluations":
        return gettext("up to %(steps)d to come") % {"steps": coming.steps}
    if span is None:
        return gettext("to come: not known yet")
    text = {"device_ms": duration, "usd": "${:.2f}".format}.get(name, "{:,.0f}".format)
    return gettext("%(low)s to %(high)s to come") % {"low": text(span.low), "high": text(span.high)}


def amount_text(name: str, value: Any) -> str:
    """An amount with its unit."""
    if name == "usd":
        return f"${value:.2f}" if value >= 1 or not value else f"${value:.4f}"
    return duration(value / 1000) if name == "device_ms" else f"{value:,}"


def _percent(part: Any, whole: Any) -> int:
    return min(100, round(100 * float(part) / float(whole))) if whole else 0


def goals(limits: RunLimits) -> tuple[str, ...]:
    """The limits that end a search without being spent, as sentences."""
    found = []
    if limits.wall_s is not None:
        found.append(gettext("No new step starts after %(duration)s.") % {"duration": duration(limits.wall_s)})
    if limits.stale_steps is not None:
        found.append(
            gettext("Ends after %(stale_steps)s steps without a new best.") % {"stale_steps": limits.stale_steps}
        )
    if limits.target_speedup is not None:
        found.append(
            gettext("Ends when the audited best reaches %(target_speedup).2f×.")
            % {"target_speedup": limits.target_speedup}
        )
    if limits.roofline_share is not None:
        found.append(
            gettext("Ends when the audited best reaches %(roofline_share)s of the roofline.")
            % {"roofline_share": f"{limits.roofline_share:.0%}"}
        )
    return tuple(found)


Completed = tuple[int, datetime | None, float | None]


def completed_of(run: Run) -> list[Completed]:
    """(row id, when it was completed, milliseconds of the device unless none were used) in completion order."""
    completed = Node.objects.filter(run=run).completed().order_by("told_order")
    rows = completed.values_list("pk", "told_at", "reused", "evaluation__wall_ms")
    return [(pk, at, None if reused else ms) for pk, at, reused, ms in rows]


def burn_down(run: Run, completed: Iterable[Completed], calls: Mapping[int, Amount]) -> dict[str, Sequence[Any]]:
    """Columns over the completed steps in completion order: seconds since the start, and what was spent by then."""
    rows = list(completed)
    money = [calls[pk].usd if pk in calls else Decimal(0) for pk, _, _ in rows]
    spent_s = accumulate((ms or 0.0) / 1000 for _, _, ms in rows)
    return {
        "steps": list(range(1, len(rows) + 1)),
        # clocks of two machines may differ
        "at_s": [max(0.0, (at - run.created_at).total_seconds()) if at else None for _, at, _ in rows],
        "evaluations": list(accumulate(int(ms is not None) for _, _, ms in rows)),
        "device_s": [round(spent, 3) for spent in spent_s],
        "tokens": list(accumulate(calls[pk].tokens if pk in calls else 0 for pk, _, _ in rows)),
        "usd": [str(usd) for usd in accumulate(money)],
    }


def budget_document(run: Run) -> dict[str, Any]:
    """The books as JSON: limits, spent, held (money as text) and the burn-down."""
    limits, ledger = limits_of(run), ledger_of(run.pk)
    return {
        "run": run.pk,
        "limits": {"steps": limits.steps, **run.limits},
        "spent": ledger.spent.to_json(),
        "reserved": ledger.reserved.to_json(),
        "burn_down": burn_down(run, completed_of(run), calls_by_node(run.pk)),
    }


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
    def label(self) -> str:
        return {
            "proposing": gettext("is being proposed for"),
            "judging": gettext("is being judged for"),
            "waiting": gettext("has waited for a reply for"),
            "held": gettext("has waited for its device for"),
        }[self.state]


@dataclass(frozen=True)
class Evidence:
    """The header: how far, how good, what now, at what cost. `best` beat PyTorch; where none did, `closest` is next
    to it, and `unproven` counts kernels that were measured faster and not audited."""

    summary: RunSummary
    standing: Standing
    doing: tuple[Doing, ...]
    best: Node | None
    closest: Node | None
    unproven: int
    cost: Calls
    carrying: Carrying | None  # what waits for the machine of its device

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

    key: str  # of memory's cluster; empty for nodes completed before it kept any, until failures_rebuild
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
    best, steering = evidence.best or evidence.closest, in_force(run)
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
        standing=standing,
        doing=_doing(run, now),
        best=_judged(run, standing.best),
        closest=_judged(run, standing.closest),
        unproven=0 if standing.best is not None else _unproven(run),
        cost=calls_summed(Proposal.objects.filter(node__run=run).exclude(model="")),
        carrying=carrying([run]).get(run.pk),
    )


def _judged(run: Run, number: int | None) -> Node | None:
    return None if number is None else Node.objects.with_verdicts().get(run=run, number=number)


def _unassisted(run: Run) -> Node | None:
    """The best of those in which no person had a hand, if one of them beat PyTorch."""
    return _judged(run, standing_of(run.pk, unassisted=True).best)


def _unproven(run: Run) -> int:
    """Passes over eager, not in doubt, that were not audited."""
    faster = Q(evaluation__speedup_low__gt=1) | Q(evaluation__basis=Basis.MODELLED.value, evaluation__speedup__gt=1)
    passed = Node.objects.filter(
        faster, run=run, state=Node.State.COMPLETED, evaluation__doubt="", evaluation__audit=""
    )
    return passed.filter(evaluation__verdict=Verdict.PASS.value).exclude(evaluation__basis=Basis.REPORTED.value).count()


def causes_of(run: Run, failed: int) -> list[Cause]:
    """Failures by cause, the most frequent first, at most `MAX_CAUSES`. Two queries."""
    rows = list(
        run.nodes.exclude(fingerprint="")
        .values("fingerprint")
        .annotate(count=Count("pk"), first=Min("number"), last=Max("number"), key=Max("failure__cluster__key"))
        .order_by("-count", "first")[:MAX_CAUSES]
    )
    firsts = Node.objects.filter(run=run, number__in=[row["first"] for row in rows]).with_verdicts()
    named = {node.number: node for node in firsts}
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
    if run.proposer in BY_HAND and node.state == Node.State.PROPOSING:
        return "waiting"
    return "held" if node.state == Node.State.JUDGING and node.unclaimed else str(node.state)
