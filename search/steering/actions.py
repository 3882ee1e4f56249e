"""Actions that steer a search: pins, pruning, boosts, notes, kernels by hand, parameters, limits, branches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from django import forms
from django.http import QueryDict
from django.urls import reverse
from django.utils import timezone
from django.utils.datastructures import MultiValueDict

from adaexplore_site.actions.action import Action, Call, Recorded, Result, Standing, missing
from adaexplore_site.actions.registry import register
from adaexplore_site.core.models import AuditEntry
from adaexplore_site.core.text import counted
from search.algorithm.tree import LARGE
from search.engine.budgets import run_budget_add
from search.nodes.views import node_load, node_panel
from search.records.kinds import RUN, RunEntries
from search.records.models import Node, Run
from search.records.queue import FollowUp, send
from search.runs.services import run_concurrency, run_stop
from search.steering import standings
from search.steering.branching import run_branch
from search.steering.budget_undo import run_budget_take
from search.steering.bulk import steer_bulk
from search.steering.forms import (
    BoostForm,
    BranchForm,
    BulkForm,
    ConcurrencyForm,
    ForceForm,
    InjectForm,
    LimitsForm,
    NodeForm,
    NoteForm,
    ParamsForm,
    PinForm,
    TakeForm,
    UndoForm,
)
from search.steering.injecting import steer_inject
from search.steering.labels import limits_text
from search.steering.nodes import steer_boost, steer_force, steer_note, steer_pin, steer_prune, steer_restore
from search.steering.run import advance, steer_params, steer_undo

COCKPIT, PANEL = ("run-detail",), ("run-detail", "node-detail")
AN_UNDO = "an undo itself"


def sent(message: str, follow_ups: Sequence[FollowUp], location: str = "") -> Result:
    """A result whose follow-up tasks are sent after the transaction."""
    return Result(message, then=lambda: send(follow_ups), location=location)


class Steered(Recorded):
    """A verb of the audit log of searches. `says` stands after "Node 7", or by itself where it is about no node."""

    kind = RUN

    def says(self, after: Mapping[str, Any]) -> str:
        """What was done, as the audit log or the event tells it."""
        raise NotImplementedError

    def describe(self, entry: AuditEntry, loaded: RunEntries) -> str:
        number, text = entry.after.get("number"), self.says(entry.after)
        return text if number is None else f"Node {number} {text}"

    def detail(self, entry: AuditEntry, loaded: RunEntries) -> str:
        """The sentence says all of it."""
        return ""


class RunAction(Steered, Action):
    """What is done to a search that goes on, by a form of the search or of one of its nodes."""

    takes = ("run_id",)
    rank = -1
    pages: ClassVar[tuple[str, ...]] = PANEL
    route = "run-steer"

    def locate(self, where: Mapping[str, Any]) -> Run:
        run = Run.objects.select_related("problem", "device").filter(pk=where["run_id"]).first()
        if run is None:
            raise missing("such search")
        return run

    def home(self, target: Run) -> str:
        return reverse("run-detail", args=[target.pk])

    def panel(self, request: Any, target: Run, **context: Any) -> Any:
        return node_panel(request, target.pk, request.POST.get("panel", ""), **context)


class Steer(RunAction):
    """An action in the fold of a search's steering. An undo takes it out of the fold again."""

    inverse = "steer.undo"

    def standing(self, entry: AuditEntry, loaded: RunEntries) -> Standing:
        return standings.steered(entry, loaded)

    def undo(self, entry: AuditEntry, call: Call) -> Result:
        return sent("Undone.", steer_undo(run=RUN.find(entry), seq=entry.after["seq"], **call.who))


@register
class PinNode(Steer):
    """Make the next `quota` selections at or below the node."""

    name, label, key, on_node = "steer.pin", "Pin the node", "p", True
    sends = {"act": "pin"}
    Form = PinForm

    def run(self, target: Run, data: dict[str, Any], call: Call) -> Result:
        return sent("Pinned.", steer_pin(run=target, number=data["number"], quota=data["quota"], **call.who))

    def says(self, after: Mapping[str, Any]) -> str:
        return f"is pinned: the next {counted(after.get('quota', 0), 'selection')} at or below it"


@register
class PruneNode(Steer):
    """Select nothing at or below the node any more."""

    name, label, key, on_node = "steer.prune", "Prune the node", "x", True
    sends = {"act": "prune"}
    Form = NodeForm
    inverse = "steer.restore"

    def run(self, target: Run, data: dict[str, Any], call: Call) -> Result:
        return sent("Pruned. Steps in flight below it end.", steer_prune(run=target, **data, **call.who))

    def says(self, after: Mapping[str, Any]) -> str:
        return "is pruned: nothing at or below it is selected"

    def detail(self, entry: AuditEntry, loaded: RunEntries) -> str:
        ended = entry.after.get("releases")
        return (
            f"Ended {counted(len(ended), 'pin or forced step')} below it" if isinstance(ended, list) and ended else ""
        )


@register
class RestoreNode(Steer):
    """Select at or below a pruned node again, except what was pruned below it."""

    name, label = "steer.restore", "Restore the node"
    sends = {"act": "restore"}
    Form = NodeForm

    def run(self, target: Run, data: dict[str, Any], call: Call) -> Result:
        return sent("Restored.", steer_restore(run=target, **data, **call.who))

    def says(self, after: Mapping[str, Any]) -> str:
        return "is restored: it can be selected again"


@register
class BoostNode(Steer):
    """Add to the node's score wherever a policy compares it; 0 clears."""

    name, label, key, on_node = "steer.boost", "Boost the node", "s", True
    sends = {"act": "boost"}
    Form = BoostForm

    def run(self, target: Run, data: dict[str, Any], call: Call) -> Result:
        return sent("Boost set.", steer_boost(run=target, **data, **call.who))

    def says(self, after: Mapping[str, Any]) -> str:
        boost = after.get("boost", 0.0)
        return f"has {boost:+g} added to its score" if boost else "has its own score again"


@register
class ForceStep(Steer):
    """Make the next possible step a large or a small one, once; with `number` from that node."""

    name, label = "steer.force", "Force the next step"
    sends = {"act": "force"}
    Form = ForceForm

    def run(self, target: Run, data: dict[str, Any], call: Call) -> Result:
        return sent(
            f"The next possible step will be a {data['kind']} one.", steer_force(run=target, **data, **call.who)
        )

    def says(self, after: Mapping[str, Any]) -> str:
        kind = after.get("kind", LARGE)
        return f"takes a {kind} step next" if "number" in after else f"The next possible step is a {kind} one"


@register
class NoteNode(Steer):
    """Add a note to the prompts of the steps at or below the node."""

    name, label, key, on_node = "steer.note", "Note for the prompts below", "i", True
    sends = {"act": "note"}
    Form = NoteForm

    def run(self, target: Run, data: dict[str, Any], call: Call) -> Result:
        return sent("Note added.", steer_note(run=target, **data, **call.who))

    def says(self, after: Mapping[str, Any]) -> str:
        return "has a note for the prompts of the steps below it"

    def detail(self, entry: AuditEntry, loaded: RunEntries) -> str:
        return str(entry.after.get("text", ""))


@register
class InjectKernel(Steer):
    """Add a kernel written by hand below a node. It is judged like any other and brings a step of its own."""

    name, label, key, on_node = "steer.inject", "Add a kernel by hand", "a", True
    sends = {"act": "inject"}
    Form = InjectForm

    def run(self, target: Run, data: dict[str, Any], call: Call) -> Result:
        place = {"number": data["number"] or 0, "kind": data["kind"] or LARGE}
        return sent("The kernel was sent to the judge.", steer_inject(run=target, **data | place, **call.who))

    def says(self, after: Mapping[str, Any]) -> str:
        return f"was written by hand, below node {after.get('parent', 0)}"


@register
class ChangeParams(Steer):
    """Decide with other parameters from the next decision on."""

    name, label = "steer.params", "Change parameters"
    sends = {"act": "params"}
    pages = COCKPIT
    open_schema = True

    def form(self, target: Run, data: QueryDict, files: MultiValueDict[str, Any]) -> forms.Form:
        return ParamsForm(data, run=target)

    def run(self, target: Run, data: dict[str, Any], call: Call) -> Result:
        return sent("Parameters changed from the next decision on.", steer_params(run=target, **data, **call.who))

    def says(self, after: Mapping[str, Any]) -> str:
        return "Parameters changed"

    def detail(self, entry: AuditEntry, loaded: RunEntries) -> str:
        was = entry.before.get("params", {})
        changes = entry.after.get("params", {}).items()
        return ", ".join(
            f"{name} {was[name]} → {value}" if name in was else f"{name} {value}" for name, value in changes
        )


@register
class SteerMany(Steer):
    """Prune, pin, boost or restore every node of a filter, while they are the nodes that the person was shown."""

    name, label = "steer.bulk", "Steer many nodes at once"
    pages = ("run-bulk",)
    route = "run-bulk"
    Form = BulkForm

    def panel(self, request: Any, target: Run, **context: Any) -> None:
        return None

    def run(self, target: Run, data: dict[str, Any], call: Call) -> Result:
        values = {name: data[name] for name in ("quota", "boost") if data["act"] == _NEEDS.get(name)}
        expected = data["typed"] or data["expected"]
        what = {"act": data["act"], "chosen": data["chosen"], "seen": data["seen"], **values}
        follow_ups = steer_bulk(run=target, expected=expected, **what, **call.who)
        return sent(f"{self.says({'verb': data['act'], 'count': expected, **values})}.", follow_ups, self.home(target))

    def says(self, after: Mapping[str, Any]) -> str:
        count, verb = after.get("count", 0), after.get("verb", "")
        nodes, one = counted(count, "node"), count == 1
        them, are, have = ("it", "is", "has") if one else ("them", "are", "have")
        if verb == "prune":
            return f"{nodes} {are} pruned: nothing at or below {them} is selected"
        if verb == "restore":
            return f"{nodes} {are} restored: {'it' if one else 'they'} can be selected again"
        if verb == "pin":
            return f"{nodes} {are} pinned: {counted(after.get('quota', 0), 'selection')} each"
        if verb == "boost":
            boost, whose = after.get("boost", 0.0), "its" if one else "their"
            scores = "score" if one else "scores"
            return (
                f"{nodes} {have} {boost:+g} added to {whose} {scores}"
                if boost
                else (f"{nodes} {have} {whose} own {scores} again")
            )
        return f"An action on {nodes}"

    def detail(self, entry: AuditEntry, loaded: RunEntries) -> str:
        return str(entry.after.get("words", ""))


_NEEDS = {"quota": "pin", "boost": "boost"}


@register
class UndoSteering(RunAction):
    """Take an action back that is number `seq` in the log, for everything decided from now on."""

    name, label = "steer.undo", "Undo an action of steering"
    sends = {"act": "undo"}
    pages = ()
    Form = UndoForm
    irreversible = AN_UNDO

    def run(self, target: Run, data: dict[str, Any], call: Call) -> Result:
        return sent("Undone.", steer_undo(run=target, **data, **call.who))

    def describe(self, entry: AuditEntry, loaded: RunEntries) -> str:
        what, number = _UNDONE.get(str(entry.after.get("verb", ""))), entry.after.get("number")
        if what is None:
            return "Added budget taken back" if entry.after.get("verb") == OldBudget.name else "Undone: an action"
        return f"Undone: {what}" if number is None else f"Undone: {what} of node {number}"


_UNDONE = {
    "steer.pin": "pin",
    "steer.prune": "prune",
    "steer.restore": "restore",
    "steer.boost": "boost",
    "steer.force": "forced step",
    "steer.note": "note",
    "steer.params": "change of parameters",
    "steer.inject": "kernel by hand",
    "steer.bulk": "action on many nodes",
}


@register
class OldBudget(Steered):
    """Steps added, as logs of versions before `run.budget` tell it."""

    name = "steer.budget"

    def says(self, after: Mapping[str, Any]) -> str:
        return "Budget added"

    def detail(self, entry: AuditEntry, loaded: RunEntries) -> str:
        total, steps = entry.after.get("total", 0), entry.after.get("steps", 0)
        return limits_text({"steps": total - steps}, {"steps": total})

    def standing(self, entry: AuditEntry, loaded: RunEntries) -> Standing:
        return standings.steered(entry, loaded)

    def undo(self, entry: AuditEntry, call: Call) -> Result:
        return sent("Undone.", steer_undo(run=RUN.find(entry), seq=entry.after["seq"], **call.who))


@register
class AddBudget(RunAction):
    """Add to the limits of a search. A finished one goes on with what it got."""

    name, label = "run.budget", "Add to the budget"
    sends = {"act": "limits"}
    pages = COCKPIT
    Form = LimitsForm
    inverse = "run.budget.undo"

    def form(self, target: Run, data: QueryDict, files: MultiValueDict[str, Any]) -> forms.Form:
        return LimitsForm(data, run=target)

    def run(self, target: Run, data: dict[str, Any], call: Call) -> Result:
        run = run_budget_add(run=target, **data, now=timezone.now(), **call.who)
        return sent("Budget added.", advance(run))

    def says(self, after: Mapping[str, Any]) -> str:
        return "Budget added"

    def detail(self, entry: AuditEntry, loaded: RunEntries) -> str:
        return limits_text(entry.before, entry.after)

    def standing(self, entry: AuditEntry, loaded: RunEntries) -> Standing:
        return standings.budget_added(entry, loaded)

    def undo(self, entry: AuditEntry, call: Call) -> Result:
        follow_ups = run_budget_take(run=RUN.find(entry), action_id=entry.pk, now=timezone.now(), **call.who)
        return sent("Added budget taken back.", follow_ups)


@register
class TakeBudget(RunAction):
    """Take back what was added to the limits of a search, as far as it is not used up."""

    name, label = "run.budget.undo", "Take added budget back"
    sends = {"act": "limits-undo"}
    pages = ()
    Form = TakeForm
    irreversible = AN_UNDO

    def run(self, target: Run, data: dict[str, Any], call: Call) -> Result:
        follow_ups = run_budget_take(run=target, action_id=data["action"], now=timezone.now(), **call.who)
        return sent("Added budget taken back.", follow_ups)

    def says(self, after: Mapping[str, Any]) -> str:
        return "Added budget taken back"

    def detail(self, entry: AuditEntry, loaded: RunEntries) -> str:
        return limits_text(entry.before, {name: value for name, value in entry.after.items() if name != "action"})


@register
class SetConcurrency(RunAction):
    """Set how many steps are in flight at once. Steps beyond it end first."""

    name, label = "run.concurrency", "Set the steps in flight"
    sends = {"act": "concurrency"}
    pages = COCKPIT
    Form = ConcurrencyForm
    inverse = "run.concurrency"

    def run(self, target: Run, data: dict[str, Any], call: Call) -> Result:
        return sent("Steps in flight changed.", advance(run_concurrency(run=target, **data, **call.who)))

    def says(self, after: Mapping[str, Any]) -> str:
        return f"Steps in flight {after.get('before')} → {after.get('after')}"

    def standing(self, entry: AuditEntry, loaded: RunEntries) -> Standing:
        return standings.concurrency_set(entry, loaded)

    def undo(self, entry: AuditEntry, call: Call) -> Result:
        return self.run(RUN.find(entry), {"concurrency": entry.after["before"]}, call)


@register
class BranchRun(Steered, Action):
    """Start a search that begins with the kernel of a node."""

    name, label, key, on_node = "run.branch", "Branch a new search", "r", True
    takes = ("run_id", "number")
    rank = -1
    pages = PANEL
    route = "node-branch"
    Form = BranchForm
    inverse = "run.stop"

    def locate(self, where: Mapping[str, Any]) -> Node:
        run, node = node_load(where["run_id"], where["number"])
        node.run = run
        return node

    def run(self, target: Node, data: dict[str, Any], call: Call) -> Result:
        new, follow_ups = run_branch(node=target, **data, **call.who)
        message = f"This search begins with the kernel of node {target.number} of search {target.run_id}."
        return sent(message, follow_ups, reverse("run-detail", args=[new.pk]))

    def again(self, entry: AuditEntry) -> Result:
        return Result(location=reverse("run-detail", args=[entry.after["run"]]))

    def home(self, target: Node) -> str:
        return reverse("node-detail", args=[target.run_id, target.number])

    def panel(self, request: Any, target: Node, **context: Any) -> Any:
        """The node again where it was refused; else one goes to the new search."""
        return node_panel(request, target.run_id, str(target.number), **context) if "refused" in context else None

    def says(self, after: Mapping[str, Any]) -> str:
        return f"was branched into search #{after['run']}" if "run" in after else "was branched into another search"

    def standing(self, entry: AuditEntry, loaded: RunEntries) -> Standing:
        return standings.branched(entry, loaded)

    def undo(self, entry: AuditEntry, call: Call) -> Result:
        run_stop(run=Run.objects.get(pk=entry.after["run"]), **call.who)
        return Result(f"Search {entry.after['run']} was stopped.")
