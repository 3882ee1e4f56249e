"""Actions that steer a search: pins, pruning, boosts, forced steps, notes, kernels by hand, parameters; their undo."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Any, ClassVar

from django import forms
from django.conf import settings
from django.http import QueryDict
from django.urls import reverse
from django.utils.datastructures import MultiValueDict
from django.utils.translation import gettext, ngettext, override
from django.utils.translation import gettext_lazy as _

from adaexplore_site.actions import registry
from adaexplore_site.actions.action import UNDO, UNDONE, Action, Call, Result, Standing
from adaexplore_site.actions.registry import register
from adaexplore_site.core.audit import ActionRefused
from adaexplore_site.core.models import AuditEntry
from judge.values import canonical_hash
from search.algorithm.params import SearchParams
from search.algorithm.steering import BOOST, BUDGET, FORCE, INJECT, PARAMS, PIN, Steering, SteeringAction
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

if TYPE_CHECKING:
    from django_stubs_ext import StrOrPromise

COCKPIT, PANEL = ("run-detail",), ("run-detail", "node-detail")
AN_UNDO = _("an undo itself")
MAX_NOTES = 20  # in force at once: all may reach one prompt
BY_HAND = "written by hand"
_UNDONE = {
    "steer.pin": _("pin"),
    "steer.prune": _("prune"),
    "steer.restore": _("restore"),
    "steer.boost": _("boost"),
    "steer.force": _("forced step"),
    "steer.note": _("note"),
    "steer.params": _("change of parameters"),
    "steer.inject": _("added kernel"),
    "steer.bulk": _("action on many nodes"),
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

    message: ClassVar[StrOrPromise]

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
        action = steering.action(seq)
        if action is None:
            return UNDONE
        if why_not := _why_not(seq, action, steering, loaded.once("waiting", _waiting)[run.pk]):
            return Standing(why_not=why_not)
        if run.ended:
            return ENDED
        return Standing(why_not=gettext("the search is stopping")) if run.state == Run.State.STOPPING else UNDO

    def undo(self, entry: AuditEntry, call: Call) -> Result:
        return registry.action(UndoSteering.name).run(RUN.find(entry), {"seq": entry.after["seq"]}, call)


def _why_not(seq: int, action: SteeringAction, steering: Steering, waiting: set[int]) -> str:
    """Why `seq`, an action or a batch, cannot be undone any more; empty when it can be tried. `action` is its first."""
    if action.verb == INJECT:
        return "" if action.node in waiting else gettext("judged")
    if action.verb in (BUDGET, PARAMS) or steering.without(seq).effects != steering.effects:
        return ""
    return gettext("used up") if steering.uses.get(action.seq) else gettext("replaced")


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

    name, label, key, on_node = "steer.pin", _("Pin the node"), "p", True
    sends = {"act": "pin"}
    Form = PinForm
    message = _("Pinned.")

    def change(self, now: Snapshot, data: dict[str, Any]) -> Change:
        if data["number"] == 0:
            raise ActionRefused(gettext("Every selection is below the start already. Pin another node."))
        now.open_branch(data["number"])
        return Change({"number": data["number"], "quota": data["quota"]})

    def says(self, after: Mapping[str, Any]) -> str:
        quota = after.get("quota", 0)
        return ngettext(
            "is pinned: the next %(quota)d selection at or below it",
            "is pinned: the next %(quota)d selections at or below it",
            quota,
        ) % {"quota": quota}


@register
class PruneNode(Steer):
    """Select nothing at or below the node any more. Steps in flight, pins and forced steps there end."""

    name, label, key, on_node = "steer.prune", _("Prune the node"), "x", True
    sends = {"act": "prune"}
    Form = NodeForm
    inverse = "steer.restore"
    message = _("Pruned. Steps in flight below it end.")
    done = _("is pruned: nothing at or below it is selected")

    def change(self, now: Snapshot, data: dict[str, Any]) -> Change | None:
        number = data["number"]
        if number == 0:
            raise ActionRefused(
                gettext("The start cannot be pruned: nothing would be left. Pause or stop the search instead.")
            )
        if number in now.steering.pruned:
            return None
        below = {branch.number for branch in now.open_branch(number).down()}
        over = [action.seq for action in now.steering.actions if action.verb in (PIN, FORCE) and action.node in below]
        if len(over) > MAX_RELEASES:
            raise ActionRefused(
                gettext("%(count)s pins and forced steps lie below node %(number)s. Undo some of them first.")
                % {"count": len(over), "number": number}
            )
        return Change({"number": number, "releases": over})

    def detail(self, entry: AuditEntry, loaded: RunEntries) -> str:
        ended = entry.after.get("releases")
        if not isinstance(ended, list) or not ended:
            return ""
        return ngettext(
            "Ended %(count)d pin or forced step below it", "Ended %(count)d pin or forced steps below it", len(ended)
        ) % {"count": len(ended)}


@register
class RestoreNode(Steer):
    """Select at or below a pruned node again, except what was pruned below it."""

    name, label = "steer.restore", _("Restore the node")
    sends = {"act": "restore"}
    Form = NodeForm
    message = _("Restored.")
    done = _("is restored: it can be selected again")

    def change(self, now: Snapshot, data: dict[str, Any]) -> Change | None:
        number = data["number"]
        branch = now.branch(number)
        if number in now.steering.pruned:
            return Change({"number": number})
        above = next((step.number for step in branch.up() if step.number in now.steering.pruned), None)
        if above is not None:
            raise ActionRefused(
                gettext("Node %(number)s lies below node %(above)s, which is pruned: restore that one.")
                % {"number": number, "above": above}
            )
        return None


@register
class BoostNode(Steer):
    """Add to the node's score wherever a policy compares it; 0 clears. It replaces an earlier boost."""

    name, label, key, on_node = "steer.boost", _("Boost the node"), "s", True
    sends = {"act": "boost"}
    Form = BoostForm
    message = _("Boost set.")

    def change(self, now: Snapshot, data: dict[str, Any]) -> Change | None:
        number, boost = data["number"], data["boost"]
        if number == 0:
            raise ActionRefused(gettext("The start has no score to raise. Boost another node."))
        now.open_branch(number)
        before = now.steering.boosts.get(number, 0.0)
        return None if before == boost else Change({"number": number, "boost": boost}, before={"boost": before})

    def says(self, after: Mapping[str, Any]) -> str:
        boost = after.get("boost", 0.0)
        if not boost:
            return gettext("has its own score again")
        return gettext("has %(boost)+g added to its score") % {"boost": boost}


@register
class ForceStep(Steer):
    """Make the next possible step a large or a small one, once; with `number` from that node."""

    name, label = "steer.force", _("Force the next step")
    sends = {"act": "force"}
    Form = ForceForm
    message = _("The next possible step will be a {kind} one.")

    def change(self, now: Snapshot, data: dict[str, Any]) -> Change:
        kind, number = data["kind"], data["number"]
        if number is None:
            return Change({"kind": kind})
        branch = now.open_branch(number)
        if kind == SMALL and (branch.is_root or (branch.told and not branch.written)):
            raise ActionRefused(
                gettext("Node %(number)s has no kernel that a small step could improve. Force a large one.")
                % {"number": number}
            )
        return Change({"number": number, "kind": kind})

    def says(self, after: Mapping[str, Any]) -> str:
        kind = after.get("kind", LARGE)
        large = kind == LARGE
        if "number" in after:
            return gettext("takes a large step next") if large else gettext("takes a small step next")
        return (
            gettext("The next possible step is a large one")
            if large
            else gettext("The next possible step is a small one")
        )


@register
class NoteNode(Steer):
    """Add a note to the prompts of the steps at or below the node that are reserved from now on."""

    name, label, key, on_node = "steer.note", _("Note for the prompts below"), "i", True
    sends = {"act": "note"}
    Form = NoteForm
    message = _("Note added.")
    done = _("has a note for the prompts of the steps below it")

    def change(self, now: Snapshot, data: dict[str, Any]) -> Change | None:
        number, note = data["number"], data["text"]
        now.branch(number)
        if note in notes_at(now.run, now.steering, number):
            return None
        if len(now.steering.notes) >= MAX_NOTES:
            raise ActionRefused(
                gettext("%(max_notes)s notes are in force. Undo one of them first.") % {"max_notes": MAX_NOTES}
            )
        return Change({"number": number, "text": note})

    def detail(self, entry: AuditEntry, loaded: RunEntries) -> str:
        return str(entry.after.get("text", ""))


@register
class InjectKernel(Steer):
    """Add a kernel written by hand below a node. It is judged like any other and brings a step of its own.

    The budget grows by that step, so that the search keeps all of its own; every other limit must have room for it.
    """

    name, label, key, on_node = "steer.inject", _("Add a kernel"), "a", True
    sends = {"act": "inject"}
    Form = InjectForm
    message = _("The kernel was sent to the judge.")

    def change(self, now: Snapshot, data: dict[str, Any]) -> Change:
        number, kind = data["number"] or 0, data["kind"] or LARGE
        parent = now.open_branch(number)
        if kind == SMALL and not parent.written:
            raise ActionRefused(
                gettext("Node %(number)s has no kernel of which this could be an edit. Add it as a large step.")
                % {"number": number}
            )
        if not parent.told:
            raise ActionRefused(
                gettext("Node %(number)s has no verdict yet. Add the kernel below another node, or wait.")
                % {"number": number}
            )
        now.steps_add(1)
        held = hand_hold(now.run).to_json()
        place = {"number": now.rows[-1].number + 1, "parent": number, "kind": kind}
        node = Node(run=now.run, number=place["number"], parent_id=now.rows[number].id, kind=kind, held=held)
        payload = {**place, "steps": 1, "total": now.run.steps}
        return Change(payload, then=lambda: [_to_judge(now, node, place, data["source"])])

    def says(self, after: Mapping[str, Any]) -> str:
        return gettext("was written by hand, below node %(parent)s") % {"parent": after.get("parent", 0)}


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

    name, label = "steer.params", _("Change parameters")
    sends = {"act": "params"}
    pages = COCKPIT
    open_schema = True
    message = _("Parameters changed from the next decision on.")
    done = _("Parameters changed")

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

    name, label = "steer.bulk", _("Steer many nodes at once")
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
        action, values, expected = data["act"], data["values"], data["expected"]
        pair_check(run=now.run, verb=f"steer.{action}")
        batch = batch_of(now, action, data["chosen"])
        if batch.why_not:
            raise ActionRefused(batch.why_not)
        found = len(batch.ready)
        if found != expected:
            text = ngettext(
                "%(found)d node matches now, not %(expected)d. Review them again, then decide.",
                "%(found)d nodes match now, not %(expected)d. Review them again, then decide.",
                found,
            )
            raise ActionRefused(text % {"found": found, "expected": expected})
        if data["seen"] and data["seen"] != batch.seen:
            raise ActionRefused(
                gettext("Other nodes match now than those that were shown. Review them again, then decide.")
            )
        if not batch.ready:
            raise ActionRefused(gettext("No node of this filter allows this action. Nothing was changed."))
        boosts = now.steering.boosts
        if action == BOOST and all(boosts.get(number, 0.0) == values["boost"] for number in batch.ready):
            return None
        with override(settings.LANGUAGE_CODE):  # what is stored is not in the language of who did it
            words = data["chosen"].text
        return batch.change({"verb": action, "count": found, "words": words, **values}, values)

    def says(self, after: Mapping[str, Any]) -> str:
        count, boost, quota = after.get("count", 0), after.get("boost", 0.0), after.get("quota", 0)
        match after.get("verb", ""):
            case "prune":
                text = ngettext(
                    "%(count)d node is pruned: nothing at or below it is selected",
                    "%(count)d nodes are pruned: nothing at or below them is selected",
                    count,
                )
            case "restore":
                text = ngettext(
                    "%(count)d node is restored: it can be selected again",
                    "%(count)d nodes are restored: they can be selected again",
                    count,
                )
            case "pin":
                nodes = ngettext("%(count)d node is pinned", "%(count)d nodes are pinned", count)
                text = nodes + ngettext(": %(quota)d selection each", ": %(quota)d selections each", quota)
            case "boost" if boost:
                text = ngettext(
                    "%(count)d node has %(boost)+g added to its score",
                    "%(count)d nodes have %(boost)+g added to their scores",
                    count,
                )
            case "boost":
                text = ngettext(
                    "%(count)d node has its own score again", "%(count)d nodes have their own scores again", count
                )
            case _:
                text = ngettext("An action on %(count)d node", "An action on %(count)d nodes", count)
        return text % {"count": count, "boost": boost, "quota": quota}

    def detail(self, entry: AuditEntry, loaded: RunEntries) -> str:
        return str(entry.after.get("words", ""))


@register
class UndoSteering(Logged):
    """Take an action back that is number `seq` in the log, for everything decided from now on.

    It is refused when the action has been used up, when later ones have replaced it, or when it was undone before.
    """

    name, label = "steer.undo", _("Undo an action of steering")
    sends = {"act": "undo"}
    pages = ()
    Form = UndoForm
    irreversible = AN_UNDO
    message = _("Undone.")

    def change(self, now: Snapshot, data: dict[str, Any]) -> Change:
        action = now.steering.action(data["seq"])
        if action is None:
            raise ActionRefused(gettext("There is no such action to undo, or it was undone before."))
        if action.verb == INJECT:
            _withdraw(now, action)
        elif action.verb == BUDGET:  # only logs from before `run.budget` have it
            _steps_take(now, action.steps)
        else:
            _must_differ(now, action, data["seq"])
        many = action.batch == data["seq"]
        payload = {
            "act": data["seq"],
            "verb": SteerMany.name if many else f"steer.{action.verb}",
            "total": now.run.steps,
        }
        where = {} if many or action.node is None else {"number": action.node}
        return Change(payload | where, then=lambda: run_follow(run=now.run, now=now.now))

    def describe(self, entry: AuditEntry, loaded: RunEntries) -> str:
        what, number = _UNDONE.get(str(entry.after.get("verb", ""))), entry.after.get("number")
        if what is None:
            old = entry.after.get("verb") == OldBudget.name
            return gettext("Added budget taken back") if old else gettext("Undone: an action")
        text = gettext("Undone: %(what)s") if number is None else gettext("Undone: %(what)s of node %(number)s")
        return text % {"what": what, "number": number}


def _withdraw(now: Snapshot, action: SteeringAction) -> None:
    """Withdraw a kernel written by hand, and the step that it brought with it."""
    node = Node.objects.get(run=now.run, number=action.node or 0)
    if not node_cancel(run=now.run, node=node, why="Its injection was undone."):
        raise ActionRefused(
            gettext("Node %(node)s has been judged: its verdict stays. Prune it instead.") % {"node": action.node}
        )
    now.steps_set(now.run.steps - action.steps)


def _steps_take(now: Snapshot, steps: int) -> None:
    left = now.run.steps - steps
    reserved = sum(row.number > 0 and row.state != Node.State.CANCELLED for row in now.rows)
    if reserved > left:
        raise ActionRefused(
            gettext(
                "%(reserved)s steps are judged or in flight; without the %(steps)s added there would "
                "be %(left)s. They are used up and cannot be taken back."
            )
            % {"reserved": reserved, "steps": steps, "left": left}
        )
    now.steps_set(left)


def _must_differ(now: Snapshot, action: SteeringAction, seq: int) -> None:
    """Refuse to undo what makes no difference any more. `seq` names the action, or the batch that it belongs to."""
    before, after = now.steering, now.steering.without(seq)
    if action.verb == PARAMS:
        first = SearchParams.of_run(now.run.params)
        try:
            same = after.params(first) == before.params(first)
        except ValueError as error:
            raise ActionRefused(
                gettext("Without this change the parameters do not agree: %(error)s") % {"error": error}
            ) from error
        if same:
            raise ActionRefused(gettext("Later changes have replaced these parameters: nothing is left to undo."))
    elif after.effects == before.effects:
        used = before.uses.get(action.seq, ())
        if action.verb == PIN and len(used) >= action.quota:
            why = gettext("All %(quota)s selections of this pin have been made: nothing is left to undo.")
        elif action.verb == FORCE and used:
            why = gettext("Node %(number)s was reserved for it: nothing is left to undo.")
        else:
            why = gettext("Later actions have replaced this one: nothing is left to undo.")
        raise ActionRefused(why % {"quota": action.quota, "number": used[0] if used else None})


@register
class OldBudget(Undoable):
    """Steps added, as logs of versions before `run.budget` tell it."""

    name, done = "steer.budget", _("Budget added")

    def detail(self, entry: AuditEntry, loaded: RunEntries) -> str:
        total, steps = entry.after.get("total", 0), entry.after.get("steps", 0)
        return f"steps {total - steps} → {total}"
