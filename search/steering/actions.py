"""Actions that steer a search: pins, pruning, boosts, forced steps, notes, kernels by hand, parameters; their undo."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any, ClassVar

from django import forms
from django.http import QueryDict
from django.urls import reverse
from django.utils.datastructures import MultiValueDict

from adaexplore_site.actions import registry
from adaexplore_site.actions.action import UNDO, UNDONE, Action, Call, Result, Standing
from adaexplore_site.actions.registry import register
from adaexplore_site.core.audit import ActionRefused
from adaexplore_site.core.models import AuditEntry
from adaexplore_site.core.text import counted
from judge.values import canonical_hash
from search.algorithm.params import SearchParams
from search.algorithm.steering import BOOST, BUDGET, FORCE, INJECT, PARAMS, PIN, Act, Steering
from search.algorithm.tree import LARGE, SMALL
from search.engine.budgets import hand_hold
from search.engine.completion import node_cancel, run_follow
from search.engine.leases import QUEUE_S, QUEUED
from search.engine.sketches import sketch
from search.nodes.views import node_panel
from search.records.kinds import ENDED, GONE, RUN, RunEntries, RunVerb
from search.records.log import notes_at, steerings_of
from search.records.models import Node, Run
from search.records.queue import FollowUp, sent
from search.runs.services import pair_check
from search.steering.forms import (
    BoostForm,
    BulkForm,
    ForceForm,
    InjectForm,
    NodeForm,
    NoteForm,
    ParamsForm,
    PinForm,
    UndoForm,
)
from search.steering.many import MAX_RELEASES, batch_of
from search.steering.snapshot import Change, Snapshot, steer

COCKPIT, PANEL = ("run-detail",), ("run-detail", "node-detail")
AN_UNDO = "an undo itself"
MAX_NOTES = 20  # in force at once: all may reach one prompt
BY_HAND = "written by hand"
_UNDONE = {
    "steer.pin": "pin",
    "steer.prune": "prune",
    "steer.restore": "restore",
    "steer.boost": "boost",
    "steer.force": "forced step",
    "steer.note": "note",
    "steer.params": "change of parameters",
    "steer.inject": "added kernel",
    "steer.bulk": "action on many nodes",
}


class RunAction(RunVerb, Action):
    """What is done to a search that goes on, by a form of the search or of one of its nodes."""

    takes = ("run_id",)
    rank = -1
    pages: ClassVar[tuple[str, ...]] = PANEL
    route, path = "run-steer", "s/<int:run_id>/steer"

    def home(self, target: Run) -> str:
        return reverse("run-detail", args=[target.pk])

    def panel(self, request: Any, target: Run, **context: Any) -> Any:
        return node_panel(request, target.pk, request.POST.get("panel", ""), **context)


class Logged(RunAction):
    """An action that stands in the log which steers the search."""

    message: ClassVar[str]

    def change(self, now: Snapshot, data: dict[str, Any]) -> Change | None:
        """What it writes, None where it is so already. Raises ActionRefused."""
        raise NotImplementedError

    def run(self, target: Run, data: dict[str, Any], call: Call) -> Result:
        follow_ups = steer(run=target, verb=self.name, call=call, change=lambda now: self.change(now, data))
        return sent(self.message.format(**data), follow_ups)


class Undoable(RunVerb):
    """A verb of the log which steers a search. An undo takes it out of the log again."""

    def standing(self, entry: AuditEntry, loaded: RunEntries) -> Standing:
        run = loaded.run(entry)
        if run is None:
            return GONE
        steering, seq = loaded.once("steering", _steerings)[run.pk], entry.after["seq"]
        act = steering.act(seq)
        if act is None:
            return UNDONE
        if why_not := _why_not(seq, act, steering, loaded.once("waiting", _waiting)[run.pk]):
            return Standing(why_not=why_not)
        if run.ended:
            return ENDED
        return Standing(why_not="the search is stopping") if run.state == Run.State.STOPPING else UNDO

    def undo(self, entry: AuditEntry, call: Call) -> Result:
        return registry.action(UndoSteering.name).run(RUN.find(entry), {"seq": entry.after["seq"]}, call)


def _why_not(seq: int, act: Act, steering: Steering, waiting: set[int]) -> str:
    """Why the action or batch `seq` cannot be undone any more; empty when it can be tried. `act` is the first of it."""
    if act.verb == INJECT:
        return "" if act.node in waiting else "judged"
    if act.verb in (BUDGET, PARAMS) or steering.without(seq).effects != steering.effects:
        return ""
    return "used up" if steering.uses.get(act.seq) else "replaced"


def _steerings(loaded: RunEntries) -> dict[int, Steering]:
    return steerings_of(list(loaded.runs))


def _waiting(loaded: RunEntries) -> dict[int, set[int]]:
    """Kernels added by hand that wait for a verdict, by search."""
    waiting: dict[int, set[int]] = {pk: set() for pk in loaded.runs}
    nodes = Node.objects.filter(run__in=waiting, state__in=Node.IN_FLIGHT, touched=True).order_by()
    for run_id, number in nodes.values_list("run", "number"):
        waiting[run_id].add(number)
    return waiting


class Steer(Undoable, Logged):
    """An action that can be taken out of the log again."""

    inverse = "steer.undo"


@register
class PinNode(Steer):
    """Make the next `quota` selections at or below the node, once it has a verdict. Older pins come first."""

    name, label, key, on_node = "steer.pin", "Pin the node", "p", True
    sends = {"act": "pin"}
    Form = PinForm
    message = "Pinned."

    def change(self, now: Snapshot, data: dict[str, Any]) -> Change:
        if data["number"] == 0:
            raise ActionRefused("Every selection is below the start already. Pin another node.")
        now.open_branch(data["number"])
        return Change({"number": data["number"], "quota": data["quota"]})

    def says(self, after: Mapping[str, Any]) -> str:
        return f"is pinned: the next {counted(after.get('quota', 0), 'selection')} at or below it"


@register
class PruneNode(Steer):
    """Select nothing at or below the node any more. Steps in flight, pins and forced steps there end."""

    name, label, key, on_node = "steer.prune", "Prune the node", "x", True
    sends = {"act": "prune"}
    Form = NodeForm
    inverse = "steer.restore"
    message = "Pruned. Steps in flight below it end."
    done = "is pruned: nothing at or below it is selected"

    def change(self, now: Snapshot, data: dict[str, Any]) -> Change | None:
        number = data["number"]
        if number == 0:
            raise ActionRefused("The start cannot be pruned: nothing would be left. Pause or stop the search instead.")
        if number in now.steering.pruned:
            return None
        below = {branch.number for branch in now.open_branch(number).down()}
        over = [act.seq for act in now.steering.acts if act.verb in (PIN, FORCE) and act.node in below]
        if len(over) > MAX_RELEASES:
            raise ActionRefused(f"{len(over)} pins and forced steps lie below node {number}. Undo some of them first.")
        return Change({"number": number, "releases": over})

    def detail(self, entry: AuditEntry, loaded: RunEntries) -> str:
        ended = entry.after.get("releases")
        if not isinstance(ended, list) or not ended:
            return ""
        return f"Ended {counted(len(ended), 'pin or forced step')} below it"


@register
class RestoreNode(Steer):
    """Select at or below a pruned node again, except what was pruned below it."""

    name, label = "steer.restore", "Restore the node"
    sends = {"act": "restore"}
    Form = NodeForm
    message = "Restored."
    done = "is restored: it can be selected again"

    def change(self, now: Snapshot, data: dict[str, Any]) -> Change | None:
        number = data["number"]
        branch = now.branch(number)
        if number in now.steering.pruned:
            return Change({"number": number})
        above = next((step.number for step in branch.up() if step.number in now.steering.pruned), None)
        if above is not None:
            raise ActionRefused(f"Node {number} lies below node {above}, which is pruned: restore that one.")
        return None


@register
class BoostNode(Steer):
    """Add to the node's score wherever a policy compares it; 0 clears. It replaces an earlier boost."""

    name, label, key, on_node = "steer.boost", "Boost the node", "s", True
    sends = {"act": "boost"}
    Form = BoostForm
    message = "Boost set."

    def change(self, now: Snapshot, data: dict[str, Any]) -> Change | None:
        number, boost = data["number"], data["boost"]
        if number == 0:
            raise ActionRefused("The start has no score to raise. Boost another node.")
        now.open_branch(number)
        before = now.steering.boosts.get(number, 0.0)
        return None if before == boost else Change({"number": number, "boost": boost}, before={"boost": before})

    def says(self, after: Mapping[str, Any]) -> str:
        boost = after.get("boost", 0.0)
        return f"has {boost:+g} added to its score" if boost else "has its own score again"


@register
class ForceStep(Steer):
    """Make the next possible step a large or a small one, once; with `number` from that node."""

    name, label = "steer.force", "Force the next step"
    sends = {"act": "force"}
    Form = ForceForm
    message = "The next possible step will be a {kind} one."

    def change(self, now: Snapshot, data: dict[str, Any]) -> Change:
        kind, number = data["kind"], data["number"]
        if number is None:
            return Change({"kind": kind})
        branch = now.open_branch(number)
        if kind == SMALL and (branch.is_root or (branch.told and not branch.written)):
            raise ActionRefused(f"Node {number} has no kernel that a small step could improve. Force a large one.")
        return Change({"number": number, "kind": kind})

    def says(self, after: Mapping[str, Any]) -> str:
        kind = after.get("kind", LARGE)
        return f"takes a {kind} step next" if "number" in after else f"The next possible step is a {kind} one"


@register
class NoteNode(Steer):
    """Add a note to the prompts of the steps at or below the node that are reserved from now on."""

    name, label, key, on_node = "steer.note", "Note for the prompts below", "i", True
    sends = {"act": "note"}
    Form = NoteForm
    message = "Note added."
    done = "has a note for the prompts of the steps below it"

    def change(self, now: Snapshot, data: dict[str, Any]) -> Change | None:
        number, note = data["number"], data["text"]
        now.branch(number)
        if note in notes_at(now.run, now.steering, number):
            return None
        if len(now.steering.notes) >= MAX_NOTES:
            raise ActionRefused(f"{MAX_NOTES} notes are in force. Undo one of them first.")
        return Change({"number": number, "text": note})

    def detail(self, entry: AuditEntry, loaded: RunEntries) -> str:
        return str(entry.after.get("text", ""))


@register
class InjectKernel(Steer):
    """Add a kernel written by hand below a node. It is judged like any other and brings a step of its own.

    The budget grows by that step, so that the search keeps all of its own; every other limit must have room for it.
    """

    name, label, key, on_node = "steer.inject", "Add a kernel", "a", True
    sends = {"act": "inject"}
    Form = InjectForm
    message = "The kernel was sent to the judge."

    def change(self, now: Snapshot, data: dict[str, Any]) -> Change:
        number, kind = data["number"] or 0, data["kind"] or LARGE
        parent = now.open_branch(number)
        if kind == SMALL and not parent.written:
            raise ActionRefused(f"Node {number} has no kernel of which this could be an edit. Add it as a large step.")
        if not parent.told:
            raise ActionRefused(f"Node {number} has no verdict yet. Add the kernel below another node, or wait.")
        now.steps_add(1)
        held = hand_hold(now.run).to_json()
        place = {"number": now.rows[-1].number + 1, "parent": number, "kind": kind}
        node = Node(run=now.run, number=place["number"], parent_id=now.rows[number].id, kind=kind, held=held)
        payload = {**place, "steps": 1, "total": now.run.steps}
        return Change(payload, then=lambda: [_to_judge(now, node, place, data["source"])])

    def says(self, after: Mapping[str, Any]) -> str:
        return f"was written by hand, below node {after.get('parent', 0)}"


def _to_judge(now: Snapshot, node: Node, place: dict[str, Any], source: str) -> FollowUp:
    """Write a node with its kernel and its events; it waits for the judge."""
    node.state, node.touched, node.summary = Node.State.JUDGING, True, BY_HAND
    node.source, node.source_hash, node.sketch = source, canonical_hash(source), sketch(source)
    node.lease_owner, node.lease_until = QUEUED, now.now + timedelta(seconds=QUEUE_S)
    node.save(force_insert=True)
    now.event("node.reserved", {**place, "context": [], "by_hand": True})
    now.event("node.proposed", {"number": node.number, "source_hash": node.source_hash, "summary": BY_HAND})
    return FollowUp("judge_node", node.pk, queue=now.run.device.queue)


@register
class ChangeParams(Steer):
    """Decide with other parameters from the next decision on."""

    name, label = "steer.params", "Change parameters"
    sends = {"act": "params"}
    pages = COCKPIT
    open_schema = True
    message = "Parameters changed from the next decision on."
    done = "Parameters changed"

    def form(self, target: Run, data: QueryDict, files: MultiValueDict[str, Any]) -> forms.Form:
        return ParamsForm(data, run=target)

    def change(self, now: Snapshot, data: dict[str, Any]) -> Change | None:
        before = now.steering.params(SearchParams.from_json(now.run.params)).to_json()
        try:
            after = SearchParams.from_json(before | data["changes"]).to_json()
        except ValueError as error:
            raise ActionRefused(str(error)) from error
        changed = {name: value for name, value in after.items() if value != before[name]}
        if not changed:
            return None
        return Change({"params": changed}, before={"params": {name: before[name] for name in changed}})

    def detail(self, entry: AuditEntry, loaded: RunEntries) -> str:
        was, changes = entry.before.get("params", {}), entry.after.get("params", {}).items()
        return ", ".join(f"{name} {was[name]} → {now}" if name in was else f"{name} {now}" for name, now in changes)


@register
class SteerMany(Steer):
    """Prune, pin, boost or restore every node of a filter, while they are the nodes that the person was shown."""

    name, label = "steer.bulk", "Steer many nodes at once"
    pages = ("run-bulk",)
    route, path = "run-bulk", ""
    Form = BulkForm

    def panel(self, request: Any, target: Run, **context: Any) -> None:
        return None

    def run(self, target: Run, data: dict[str, Any], call: Call) -> Result:
        follow_ups = steer(run=target, verb=self.name, call=call, change=lambda now: self.change(now, data))
        said = {"verb": data["act"], "count": data["expected"], **data["values"]}
        return sent(f"{self.says(said)}.", follow_ups, self.home(target))

    def change(self, now: Snapshot, data: dict[str, Any]) -> Change | None:
        act, values, expected = data["act"], data["values"], data["expected"]
        pair_check(run=now.run, verb=f"steer.{act}")
        batch = batch_of(now, act, data["chosen"])
        if batch.why_not:
            raise ActionRefused(batch.why_not)
        found = len(batch.ready)
        if found != expected:
            match = "node matches" if found == 1 else "nodes match"
            raise ActionRefused(f"{found} {match} now, not {expected}. Review them again, then decide.")
        if data["seen"] and data["seen"] != batch.seen:
            raise ActionRefused("Other nodes match now than those that were shown. Review them again, then decide.")
        if not batch.ready:
            raise ActionRefused("No node of this filter allows this action. Nothing was changed.")
        boosts = now.steering.boosts
        if act == BOOST and all(boosts.get(number, 0.0) == values["boost"] for number in batch.ready):
            return None
        return batch.change({"verb": act, "count": found, "words": data["chosen"].words, **values}, values)

    def says(self, after: Mapping[str, Any]) -> str:
        count, verb = after.get("count", 0), after.get("verb", "")
        nodes, one = counted(count, "node"), count == 1
        are, them = ("is", "it") if one else ("are", "them")
        match verb:
            case "prune":
                return f"{nodes} {are} pruned: nothing at or below {them} is selected"
            case "restore":
                return f"{nodes} {are} restored: {'it' if one else 'they'} can be selected again"
            case "pin":
                return f"{nodes} {are} pinned: {counted(after.get('quota', 0), 'selection')} each"
            case "boost":
                boost, have = after.get("boost", 0.0), "has" if one else "have"
                scores = "score" if one else "scores"
                whose = "its" if one else "their"
                if boost:
                    return f"{nodes} {have} {boost:+g} added to {whose} {scores}"
                return f"{nodes} {have} {whose} own {scores} again"
        return f"An action on {nodes}"

    def detail(self, entry: AuditEntry, loaded: RunEntries) -> str:
        return str(entry.after.get("words", ""))


@register
class UndoSteering(Logged):
    """Take an action back that is number `seq` in the log, for everything decided from now on.

    It is refused when the action has been used up, when later ones have replaced it, or when it was undone before.
    """

    name, label = "steer.undo", "Undo an action of steering"
    sends = {"act": "undo"}
    pages = ()
    Form = UndoForm
    irreversible = AN_UNDO
    message = "Undone."

    def change(self, now: Snapshot, data: dict[str, Any]) -> Change:
        act = now.steering.act(data["seq"])
        if act is None:
            raise ActionRefused("There is no such action to undo, or it was undone before.")
        if act.verb == INJECT:
            _withdraw(now, act)
        elif act.verb == BUDGET:  # only logs from before `run.budget` have it
            _steps_take(now, act.steps)
        else:
            _must_differ(now, act, data["seq"])
        many = act.batch == data["seq"]
        payload = {"act": data["seq"], "verb": SteerMany.name if many else f"steer.{act.verb}", "total": now.run.steps}
        where = {} if many or act.node is None else {"number": act.node}
        return Change(payload | where, then=lambda: run_follow(run=now.run, now=now.now))

    def describe(self, entry: AuditEntry, loaded: RunEntries) -> str:
        what, number = _UNDONE.get(str(entry.after.get("verb", ""))), entry.after.get("number")
        if what is None:
            return "Added budget taken back" if entry.after.get("verb") == OldBudget.name else "Undone: an action"
        return f"Undone: {what}" if number is None else f"Undone: {what} of node {number}"


def _withdraw(now: Snapshot, act: Act) -> None:
    """Withdraw a kernel written by hand, and the step that it brought with it."""
    node = Node.objects.get(run=now.run, number=act.node or 0)
    if not node_cancel(run=now.run, node=node, why="Its injection was undone."):
        raise ActionRefused(f"Node {act.node} has been judged: its verdict stays. Prune it instead.")
    now.steps_set(now.run.steps - act.steps)


def _steps_take(now: Snapshot, steps: int) -> None:
    left = now.run.steps - steps
    reserved = sum(row.number > 0 and row.state != Node.State.CANCELLED for row in now.rows)
    if reserved > left:
        raise ActionRefused(
            f"{reserved} steps are judged or in flight; without the {steps} added there would be {left}. "
            "They are used up and cannot be taken back."
        )
    now.steps_set(left)


def _must_differ(now: Snapshot, act: Act, seq: int) -> None:
    """Refuse to undo what makes no difference any more. `seq` names the action, or the batch that it belongs to."""
    before, after = now.steering, now.steering.without(seq)
    if act.verb == PARAMS:
        first = SearchParams.of_run(now.run.params)
        try:
            same = after.params(first) == before.params(first)
        except ValueError as error:
            raise ActionRefused(f"Without this change the parameters do not agree: {error}") from error
        if same:
            raise ActionRefused("Later changes have replaced these parameters: nothing is left to undo.")
    elif after.effects == before.effects:
        used = before.uses.get(act.seq, ())
        if act.verb == PIN and len(used) >= act.quota:
            why = f"All {act.quota} selections of this pin have been made"
        elif act.verb == FORCE and used:
            why = f"Node {used[0]} was reserved for it"
        else:
            why = "Later actions have replaced this one"
        raise ActionRefused(f"{why}: nothing is left to undo.")


@register
class OldBudget(Undoable):
    """Steps added, as logs of versions before `run.budget` tell it."""

    name, done = "steer.budget", "Budget added"

    def detail(self, entry: AuditEntry, loaded: RunEntries) -> str:
        total, steps = entry.after.get("total", 0), entry.after.get("steps", 0)
        return f"steps {total - steps} → {total}"
