"""Actions on the limits of a search and on its steps in flight, and the search that begins with a kernel of another."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

from django import forms
from django.db.models import Max
from django.http import QueryDict
from django.urls import reverse
from django.utils import timezone
from django.utils.datastructures import MultiValueDict
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from adaexplore_site.actions import registry
from adaexplore_site.actions.action import REPLACED, UNDO, UNDONE, Action, Call, Result, Standing
from adaexplore_site.actions.registry import register
from adaexplore_site.core.audit import ActionRefused
from adaexplore_site.core.models import AuditEntry
from adaexplore_site.core.text import clip
from judge.evaluations.models import Evaluation
from judge.values import PROTOCOL, UNCACHED, Verdict
from search.algorithm.params import SearchParams
from search.algorithm.tree import LARGE
from search.engine.budgets import budget_own, limits_keep
from search.engine.completion import node_complete, run_follow
from search.engine.leases import QUEUE_S, QUEUED
from search.ledger.books import books, limits_of, stop_of
from search.ledger.limits import MAX_STEPS, WORDS, RunLimits, limit_amounts
from search.nodes.views import node_load, node_panel
from search.records.events import (
    BudgetAdded,
    BudgetTaken,
    ConcurrencyChanged,
    NodeProposed,
    NodeReserved,
    RunBranched,
    RunResumed,
)
from search.records.kinds import ENDED, GONE, RUN, RunEntries, RunVerb, action_record
from search.records.log import event_write, steering_of
from search.records.models import Node, Run
from search.records.queue import FollowUp, sent
from search.runs.services import pair_check, run_held, run_open, run_start, run_stop
from search.steering.actions import AN_UNDO, COCKPIT, PANEL, RunAction
from search.steering.forms import EXTENDABLE, BranchForm, ConcurrencyForm, LimitsForm, TakeForm

GOALS = ("stale_steps", "target_speedup", "roofline_share")
BILLED = ("tokens", "usd", "step_tokens", "step_usd")


def limits_text(before: Mapping[str, Any], after: Mapping[str, Any]) -> str:
    """`steps 20 → 30, wall_s 60 → 90`."""
    return ", ".join(f"{name} {before.get(name)} → {value}" for name, value in after.items())


def advance(run: Run) -> list[FollowUp]:
    """Ask for the next steps, unless the search is paused."""
    return [FollowUp("advance", run.pk)] if run.state == Run.State.RUNNING else []


def _values(limits: RunLimits, names: Collection[str]) -> dict[str, Any]:
    """Some of the limits as plain JSON types."""
    known = {"steps": limits.steps, **limits.to_json()}
    return {name: known[name] for name in names}


@register
class AddBudget(RunAction):
    """Add to the limits of a search. A finished one goes on with what it got."""

    name, label, done = "run.budget", _("Add to the budget"), _("Budget added")
    sends = {"act": "limits"}
    pages = COCKPIT
    Form = LimitsForm
    inverse = "run.budget.undo"

    def form(self, target: Run, data: QueryDict, files: MultiValueDict[str, Any]) -> forms.Form:
        return LimitsForm(data, run=target)

    def run(self, target: Run, data: dict[str, Any], call: Call) -> Result:
        run, now = run_held(target), timezone.now()
        if run.origin == Run.Origin.IMPORT or run.state not in EXTENDABLE:
            state = gettext("imported") if run.origin == Run.Origin.IMPORT else run.state
            raise ActionRefused(gettext("Nothing can be added to this search: it is %(state)s.") % {"state": state})
        budget_own(run)
        before = limits_of(run)
        try:
            after = before.extended(data["delta"])
        except ValueError as error:
            raise ActionRefused(str(error)) from error
        if after.steps > max(MAX_STEPS, before.steps):
            raise ActionRefused(
                gettext("A search has at most %(max_steps)s steps; this one has %(steps)s.")
                % {"max_steps": MAX_STEPS, "steps": before.steps}
            )
        was, added = (_values(limits, data["delta"]) for limits in (before, after))
        limits_keep(run, after)
        run.save(update_fields=["steps", "limits", "deadline_at"])
        event_write(run=run, event=BudgetAdded(before=was, after=added), actor=call.user)
        action_record(verb=self.name, run=run, **call.who, before=was, after=added)
        if run.state == Run.State.FINISHED:
            _reopen(run, call, now)
        return sent(gettext("Budget added."), advance(run))

    def detail(self, entry: AuditEntry, loaded: RunEntries) -> str:
        return limits_text(entry.before, entry.after)

    def standing(self, entry: AuditEntry, loaded: RunEntries) -> Standing:
        run = loaded.run(entry)
        if run is None:
            return GONE
        if entry.pk in loaded.once("budgets", lambda entries: _taken(entries.runs.keys())):
            return UNDONE
        return ENDED if run.ended else UNDO

    def undo(self, entry: AuditEntry, call: Call) -> Result:
        return registry.action(self.inverse).run(RUN.find(entry), {"action": entry.pk}, call)


def _reopen(run: Run, call: Call, now: datetime) -> None:
    """Let a finished search go on. Raises ActionRefused when another limit still stands against a step."""
    stop = stop_of(run, now)
    if stop is not None:
        raise ActionRefused(gettext("This search cannot continue. %(text)s") % {"text": stop.text})
    run.state, run.stop_reason, run.ended_at = Run.State.RUNNING, "", None
    run.save(update_fields=["state", "stop_reason", "ended_at"])
    by = call.user.get_username() if call.user else ""
    event_write(run=run, event=RunResumed(by=by), actor=call.user)


def _taken(run_ids: Collection[int]) -> set[int]:
    """The additions to these searches that were taken back, as numbers of audit entries."""
    keys = [str(pk) for pk in run_ids]
    acts = AuditEntry.objects.filter(verb=TakeBudget.name, object_type=RUN.name, object_id__in=keys)
    return {after["action"] for after in acts.values_list("after", flat=True)}


@register
class TakeBudget(RunAction):
    """Take back what was added to the limits of a search, as far as it is not used up or reserved."""

    name, label, done = "run.budget.undo", _("Take added budget back"), _("Added budget taken back")
    sends = {"act": "limits-undo"}
    pages = ()
    Form = TakeForm
    irreversible = AN_UNDO

    def run(self, target: Run, data: dict[str, Any], call: Call) -> Result:
        run, now = run_held(target), timezone.now()
        of_run = AuditEntry.objects.filter(verb=AddBudget.name, object_type=RUN.name, object_id=str(run.pk))
        act = of_run.filter(pk=data["action"]).first()
        if act is None or act.pk in _taken([run.pk]):
            raise ActionRefused(gettext("There is no such addition to undo, or it was undone before."))
        if run.ended:
            raise ActionRefused(
                gettext("This search has already ended (%(state)s): its limits cannot change.") % {"state": run.state}
            )
        before = limits_of(run)
        after = _without(before, act)
        _must_hold(run, after, now)
        limits_keep(run, after)
        run.save(update_fields=["steps", "limits", "deadline_at"])
        was, left = (_values(limits, act.after) for limits in (before, after))
        event_write(run=run, event=BudgetTaken(before=was, after=left), actor=call.user)
        action_record(verb=self.name, run=run, **call.who, before=was, after={**left, "action": act.pk})
        return sent(gettext("Added budget taken back."), run_follow(run=run, now=now))

    def detail(self, entry: AuditEntry, loaded: RunEntries) -> str:
        return limits_text(entry.before, {name: value for name, value in entry.after.items() if name != "action"})


def _without(limits: RunLimits, act: AuditEntry) -> RunLimits:
    """These limits without what the action added."""

    def number(name: str, value: Any) -> Any:
        return Decimal(value) if name == "usd" else value

    added = {name: number(name, act.after[name]) - number(name, act.before[name]) for name in act.after}
    try:
        return dataclasses.replace(limits, **{name: getattr(limits, name) - more for name, more in added.items()})
    except ValueError as error:
        raise ActionRefused(gettext("It cannot be taken back: %(error)s") % {"error": error}) from error


def _must_hold(run: Run, limits: RunLimits, now: datetime) -> None:
    ledger = books(run, limits)
    taken = ledger.spent + ledger.reserved
    for name, limit in limit_amounts(limits).items():
        used = getattr(taken, name)
        if used > limit:
            scale = 1000 if name == "device_ms" else 1
            raise ActionRefused(
                gettext(
                    "%(used).10g %(limit)s are used, or held by steps in flight; only %(allowed).10g "
                    "would be allowed without what was added. Stop the search to end it here."
                )
                % {"used": used / scale, "limit": WORDS[name], "allowed": limit / scale}
            )
    if limits.wall_s is not None and (now - run.created_at).total_seconds() > limits.wall_s:
        raise ActionRefused(gettext("The time that was added has passed already."))


@register
class SetConcurrency(RunAction):
    """Set how many steps are in flight at once. Steps beyond it end first."""

    name, label = "run.concurrency", _("Set the steps in flight")
    sends = {"act": "concurrency"}
    pages = COCKPIT
    Form = ConcurrencyForm
    inverse = "run.concurrency"

    def run(self, target: Run, data: dict[str, Any], call: Call) -> Result:
        run = run_open(target)
        before, after = run.concurrency, data["concurrency"]
        if before != after:
            pair_check(run=run, verb=self.name)
            run.concurrency = after
            run.save(update_fields=["concurrency"])
            change = {"before": before, "after": after}
            event_write(run=run, event=ConcurrencyChanged(before=before, after=after), actor=call.user)
            action_record(verb=self.name, run=run, **call.who, before={"concurrency": before}, after=change)
        return sent(gettext("Steps in flight changed."), advance(run))

    def says(self, after: Mapping[str, Any]) -> str:
        values = {"before": after.get("before"), "after": after.get("after")}
        return gettext("Steps in flight %(before)s → %(after)s") % values

    def standing(self, entry: AuditEntry, loaded: RunEntries) -> Standing:
        """Only the last change of a search can be undone."""
        run = loaded.run(entry)
        if run is None:
            return GONE
        if entry.pk not in loaded.once("concurrency", _last_concurrency):
            return REPLACED
        return ENDED if run.ended else UNDO

    def undo(self, entry: AuditEntry, call: Call) -> Result:
        return self.run(RUN.find(entry), {"concurrency": entry.after["before"]}, call)


def _last_concurrency(loaded: RunEntries) -> set[int]:
    keys = [str(pk) for pk in loaded.runs]
    entries = AuditEntry.objects.filter(object_type=RUN.name, object_id__in=keys, verb=SetConcurrency.name).order_by()
    return set(entries.values("object_id").annotate(last=Max("pk")).values_list("last", flat=True))


@register
class BranchRun(RunVerb, Action):
    """Start a search that begins with the kernel of a node.

    The kernel is its node 1, with the verdict that it has where the device is the same, else it is judged first. The
    search takes over the parameters in force, the hard limits, counted anew, and the rules out of memory.
    """

    name, label, key, on_node = "run.branch", _("Branch a new search"), "r", True
    takes = ("run_id", "number")
    rank = -1
    pages = PANEL
    route, path = "node-branch", "s/<int:run_id>/n/<int:number>/branch"
    Form = BranchForm
    inverse = "run.stop"

    def locate(self, where: Mapping[str, Any]) -> Node:
        return node_load(where["run_id"], where["number"])

    def run(self, target: Node, data: dict[str, Any], call: Call) -> Result:
        run = run_held(target.run)
        node = Node.objects.select_related("evaluation").get(pk=target.pk)
        if node.kind == Node.Kind.ROOT:
            raise ActionRefused(
                gettext("The start holds no kernel to branch from. Start a new search on the problem instead.")
            )
        if node.state != Node.State.COMPLETED or not node.source:
            raise ActionRefused(
                gettext("Node %(number)s has no kernel with a verdict. Branch from another node, or wait.")
                % {"number": node.number}
            )
        proposer = data["proposer"] or run.proposer
        left_out = GOALS if proposer == run.proposer else (*GOALS, *BILLED)
        new = run_start(
            problem=run.problem,
            device=data["device"] or run.device,
            proposer=proposer,
            steps=data["steps"] + 1,
            params=steering_of(run.pk).params(SearchParams.of_run(run.params)).to_json(),
            options={name: value for name, value in run.proposer_options.items() if name != "dialect"},
            limits={name: value for name, value in run.limits.items() if name not in left_out},
            user=call.user,
            title=clip(f"{run.title or run.problem.title}, from node {node.number} of #{run.pk}", 160),
            concurrency=run.concurrency,
            memory_of=run.pk,
        )
        Run.objects.filter(pk=new.pk).update(branched_from=node)
        payload = {"number": node.number, "run": new.pk}
        event_write(run=run, event=RunBranched(**payload), actor=call.user)
        action_record(verb=self.name, run=run, **call.who, after=payload)
        values = {"number": node.number, "run": run.pk}
        message = gettext("This search begins with the kernel of node %(number)s of search %(run)s.") % values
        return sent(message, _first_node(new, node), reverse("run-detail", args=[new.pk]))

    def again(self, entry: AuditEntry) -> Result:
        return Result(location=reverse("run-detail", args=[entry.after["run"]]))

    def home(self, target: Node) -> str:
        return reverse("node-detail", args=[target.run_id, target.number])

    def panel(self, request: Any, target: Node, **context: Any) -> Any:
        """The node again where it was refused; else one goes to the new search."""
        return node_panel(request, target.run_id, str(target.number), **context) if "refused" in context else None

    def says(self, after: Mapping[str, Any]) -> str:
        return gettext("was branched into search #%(run)s") % {"run": after["run"]}

    def standing(self, entry: AuditEntry, loaded: RunEntries) -> Standing:
        """A new search is taken back by stopping it, while it has not ended."""
        if loaded.run(entry) is None:
            return GONE
        branch = entry.after["run"]
        if branch in loaded.once("branches", _live_branches):
            return Standing(gettext("Stop #%(branch)s") % {"branch": branch})
        return Standing(why_not=gettext("search %(branch)s has ended") % {"branch": branch})

    def undo(self, entry: AuditEntry, call: Call) -> Result:
        run_stop(run=Run.objects.get(pk=entry.after["run"]), **call.who)
        return Result(gettext("Search %(run)s was stopped.") % {"run": entry.after["run"]})


def _live_branches(loaded: RunEntries) -> set[int]:
    live = Run.objects.filter(branched_from__run__in=list(loaded.runs)).exclude(state__in=Run.ENDED)
    return set(live.values_list("pk", flat=True))


def _first_node(run: Run, origin: Node) -> list[FollowUp]:
    """Node 1 of `run` with the kernel of `origin`: completed at once, or sent to the judge."""
    now = timezone.now()
    node = Node.objects.create(
        run=run,
        number=1,
        parent=run.nodes.get(number=0),
        kind=LARGE,
        state=Node.State.JUDGING,
        source=origin.source,
        source_hash=origin.source_hash,
        sketch=origin.sketch,
        summary=clip(f"from node {origin.number} of search {origin.run_id}", 200),
        touched=True,
        lease_owner=QUEUED,
        lease_until=now + timedelta(seconds=QUEUE_S),
    )
    event_write(run=run, event=NodeReserved(number=1, parent=0, kind=LARGE, context=[], by_hand=True))
    event_write(run=run, event=NodeProposed(number=1, source_hash=node.source_hash, summary=node.summary))
    if _still_holds(origin.evaluation, run.device_id):
        return node_complete(run=run, node=node, owner=QUEUED, now=now, evaluation=origin.evaluation, reused=True) or []
    return [FollowUp("judge_node", node.pk, queue=run.device.queue)]


def _still_holds(evaluation: Evaluation | None, device_id: int) -> bool:
    """Whether a verdict can be taken over as it is: same device and protocol, and a pass was audited."""
    if evaluation is None or evaluation.device_id != device_id or evaluation.protocol != PROTOCOL:
        return False
    if evaluation.verdict in {verdict.value for verdict in UNCACHED}:
        return False
    return evaluation.verdict != Verdict.PASS.value or evaluation.may_be_best
