"""Actions on clusters of failures: assign, mute, merge, split, propose a rule, undo."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from django import forms
from django.contrib.auth.models import User
from django.urls import reverse

from adaexplore_site.actions import registry
from adaexplore_site.actions.action import (
    CHANGED,
    UNDO,
    UNDONE,
    Action,
    ActionForm,
    Call,
    Kind,
    Result,
    Standing,
    Subject,
    missing,
)
from adaexplore_site.actions.registry import register
from adaexplore_site.core.access import Role
from adaexplore_site.core.audit import ActionRefused, FieldsRefused
from adaexplore_site.core.models import AuditEntry
from memory.clusters import services
from memory.clusters.proposing import cluster_propose
from memory.failures.models import FailureCluster
from memory.review.actions import ScopeForm
from memory.rules.desk import rules_locked
from memory.rules.models import Rule
from memory.rules.scope_form import FIELDS

GONE = "a cluster that is gone"


@dataclass(frozen=True)
class ClusterEntries:
    """Entries on clusters: the clusters and people that they name, and what was undone."""

    clusters: Mapping[int, FailureCluster]
    people: Mapping[int, str]
    undos: Mapping[int, AuditEntry]  # by number: entries that others among them have undone
    undone: frozenset[int]

    def own(self, entry: AuditEntry) -> FailureCluster | None:
        """The cluster of an entry; None when it is gone."""
        return self.clusters.get(int(entry.object_id))

    def title(self, pk: int | None) -> str:
        """A cluster's title in quotes."""
        row = self.clusters.get(pk or 0)
        return f"“{row.title}”" if row is not None else GONE


class ClusterKind(Kind):
    name = "cluster"

    def load(self, entries: Sequence[AuditEntry]) -> ClusterEntries:
        wanted = [entry.after["of"] for entry in entries if entry.verb == services.UNDO and "of" in entry.after]
        undos = AuditEntry.objects.in_bulk(wanted)
        told = [*entries, *undos.values()]
        ids = {int(entry.object_id) for entry in told}
        ids |= {into for entry in told if (into := entry.after.get("merged_into_id"))}
        people = User.objects.filter(pk__in={who for entry in told if (who := entry.after.get("assignee_id"))})
        mine = AuditEntry.objects.filter(verb=services.UNDO, object_type=self.name).order_by()
        undone = mine.filter(object_id__in={entry.object_id for entry in entries}).values_list("after", flat=True)
        return ClusterEntries(
            clusters=FailureCluster.objects.in_bulk(ids),
            people=dict(people.values_list("pk", "username")),
            undos=undos,
            undone=frozenset(after["of"] for after in undone if "of" in after),
        )

    def subject(self, entry: AuditEntry, loaded: ClusterEntries) -> Subject | None:
        row = loaded.own(entry)
        return None if row is None else Subject("cluster", row.short_title, reverse("failure-cluster", args=[row.key]))

    def lock(self, target: FailureCluster) -> FailureCluster:
        """The cluster's row. Services lock all rules before a row, so this does, too: otherwise two could wait for
        each other."""
        with rules_locked():
            return FailureCluster.objects.select_for_update(of=("self",)).get(pk=target.pk)


KIND = ClusterKind()


class ClusterAction(Action):
    """What a reviewer does to a cluster."""

    kind = KIND
    role = Role.REVIEWER
    takes = ("key",)
    route = "failure-act"
    pages: ClassVar[tuple[str, ...]] = ("failure-cluster",)
    page_key = True

    def __init_subclass__(cls) -> None:
        if "name" in cls.__dict__:
            cls.sends = {"act": cls.name.removeprefix("cluster.")}

    def locate(self, where: Mapping[str, Any]) -> FailureCluster:
        row = FailureCluster.objects.select_related("merged_into", "assignee").filter(key=where["key"]).first()
        if row is None:
            raise missing(f"cluster {where['key']}")
        return row

    def home(self, target: FailureCluster) -> str:
        return reverse("failure-cluster", args=[target.key])


class ClusterChange(ClusterAction):
    """What is undone while nothing has changed what it changed."""

    inverse = services.UNDO

    def standing(self, entry: AuditEntry, loaded: ClusterEntries) -> Standing:
        row = loaded.own(entry)
        if row is None:
            return Standing(why_not="the cluster is gone")
        if entry.pk in loaded.undone:
            return UNDONE
        return UNDO if self.holds(entry, row) else CHANGED

    def holds(self, entry: AuditEntry, row: FailureCluster) -> bool:
        """Whether the cluster still is what the entry made of it."""
        return services.holds(entry, row)

    def undo(self, entry: AuditEntry, call: Call) -> Result:
        return _undo(entry, call)


@register
class AssignCluster(ClusterChange):
    """Say who looks into a cluster."""

    class Form(ActionForm):
        assignee = forms.CharField(required=False, help_text="User name; empty for nobody.")

        def clean_assignee(self) -> User | None:
            name = self.cleaned_data["assignee"]
            person = User.objects.filter(username=name, is_active=True).first() if name else None
            if name and person is None:
                raise forms.ValidationError(f"There is nobody called {name[:60]!r} here. Choose one of the list.")
            return person

    name, label = "cluster.assign", "Assign the cluster"

    def run(self, target: FailureCluster, data: dict[str, Any], call: Call) -> Result:
        person = data["assignee"]
        entry = services.cluster_assign(cluster=target, assignee=person, **call.who)
        return Result(f"Assigned to {person.get_username()}." if person else "Assigned to nobody.", entry=entry)

    def describe(self, entry: AuditEntry, loaded: ClusterEntries) -> str:
        who = entry.after.get("assignee_id")
        return f"Assigned to {loaded.people.get(who, 'somebody who has left')}" if who else "Assigned to nobody"


@register
class MuteCluster(ClusterChange):
    """Leave a cluster out of the lists until it has more than twice the failures of now."""

    name, label, inverse = "cluster.mute", "Mute the cluster", "cluster.unmute"
    key = "m"

    def run(self, target: FailureCluster, data: dict[str, Any], call: Call) -> Result:
        entry = services.cluster_mute(cluster=target, **call.who)
        return Result("Muted until it has more than twice the failures of now.", entry=entry)

    def describe(self, entry: AuditEntry, loaded: ClusterEntries) -> str:
        return f"Muted at {_count(entry.after.get('muted_count', 0), 'failure')}"


@register
class UnmuteCluster(ClusterChange):
    """List a muted cluster again."""

    name, label, inverse, done = "cluster.unmute", "List the cluster again", "cluster.mute", "Listed again"

    def run(self, target: FailureCluster, data: dict[str, Any], call: Call) -> Result:
        return Result("The cluster is listed again.", entry=services.cluster_unmute(cluster=target, **call.who))


@register
class MergeCluster(ClusterChange):
    """Show the failures of a cluster under another one."""

    class Form(ActionForm):
        into = forms.CharField(help_text="Key of the other cluster.")

        def clean_into(self) -> FailureCluster:
            return _of_key(self.cleaned_data["into"])

    name, label, inverse = "cluster.merge", "Merge the cluster into another", "cluster.split"

    def run(self, target: FailureCluster, data: dict[str, Any], call: Call) -> Result:
        entry = services.cluster_merge(cluster=target, into=data["into"], **call.who)
        return Result(f"Its failures are shown under “{data['into'].title}” now.", entry=entry)

    def describe(self, entry: AuditEntry, loaded: ClusterEntries) -> str:
        return f"Merged into {loaded.title(entry.after['merged_into_id'])}"


@register
class SplitCluster(ClusterChange):
    """Show a merged cluster by itself again."""

    class Form(ActionForm):
        part = forms.CharField(required=False, help_text="Key of a cluster that was merged into it; empty for itself.")

        def clean_part(self) -> FailureCluster | None:
            return _of_key(self.cleaned_data["part"]) if self.cleaned_data["part"] else None

    name, label, done = "cluster.split", "Split the cluster off", "Split off again"

    def run(self, target: FailureCluster, data: dict[str, Any], call: Call) -> Result:
        part = data["part"] or target
        if part.pk != target.pk and part.merged_into_id != target.pk:
            raise FieldsRefused({"part": f"The cluster {part.key} is not merged into this one."})
        return Result("The cluster stands by itself again.", entry=services.cluster_split(cluster=part, **call.who))


@register
class ProposeRule(ClusterChange):
    """Propose a rule with the failures of a cluster as its sightings."""

    class Form(ScopeForm):
        claim = forms.CharField(
            required=False, max_length=2000, widget=forms.Textarea, help_text="What not to do, and what to do instead."
        )

        def clean(self) -> dict[str, Any]:
            """Without any field of the scope, the scope that its failures suggest."""
            data = super().clean()
            return data if any(name in self.data for name in FIELDS) else {**data, "scope": None}

    name, label = services.PROPOSE, "Propose a rule from the cluster"
    key = "y"

    def run(self, target: FailureCluster, data: dict[str, Any], call: Call) -> Result:
        rule = cluster_propose(cluster=target, claim=data["claim"], scope=data["scope"], **call.who)
        waits = "waits for review" if rule.state == Rule.State.PROPOSED else f"stays {rule.state}"
        return Result(f"Rule {rule.pk} has {_count(rule.sightings.count(), 'sighting')} now and {waits}.")

    def describe(self, entry: AuditEntry, loaded: ClusterEntries) -> str:
        count = _count(entry.after.get("sightings", 0), "sighting")
        return f"Proposed rule {entry.after.get('rule')} with {count}"

    def standing(self, entry: AuditEntry, loaded: ClusterEntries) -> Standing:
        if "added" not in entry.after:
            return Standing(why_not="reject the rule on its page instead")
        return super().standing(entry, loaded)

    def holds(self, entry: AuditEntry, row: FailureCluster) -> bool:
        return True  # it changes rules, not the cluster: the service looks at those


@register
class UndoCluster(ClusterAction):
    """Undo an action on a cluster."""

    class Form(ActionForm):
        action = forms.IntegerField(widget=forms.HiddenInput, help_text="Number of the entry in the activity log.")

    name, label = services.UNDO, "Undo an act on the cluster"
    pages, page_key = (), False
    irreversible = "do the action again instead"

    def run(self, target: FailureCluster, data: dict[str, Any], call: Call) -> Result:
        entry = AuditEntry.objects.filter(pk=data["action"], object_type=services.OBJECT).first()
        if entry is None:
            raise ActionRefused("There is no such entry of a cluster. Reload the page and use its buttons.")
        return _undo(entry, call)

    def describe(self, entry: AuditEntry, loaded: ClusterEntries) -> str:
        first = loaded.undos.get(entry.after.get("of", 0))
        row = registry.verb(first.verb) if first is not None else None
        if first is None or row is None:
            return "Undone"
        words = row.describe(first, loaded)
        return f"Undone: {words[:1].lower()}{words[1:]}"

    def detail(self, entry: AuditEntry, loaded: ClusterEntries) -> str:
        return ""


def _of_key(text: str) -> FailureCluster:
    """Raises ValidationError."""
    row = FailureCluster.objects.filter(key=text[:12]).first()
    if row is None:
        raise forms.ValidationError(f"There is no cluster {text[:12]!r}. Give the twelve letters and digits of one.")
    return row


def _undo(entry: AuditEntry, call: Call) -> Result:
    undo = services.cluster_undo(action=entry, **call.who)
    message = "Undone."
    if entry.verb == services.PROPOSE:
        end = "is withdrawn" if undo.after["withdrawn"] else "has its sightings of before"
        message = f"Undone: rule {undo.after['rule']} {end}."
    return Result(message, entry=undo)


def _count(count: int, noun: str) -> str:
    return f"{count} {noun}" + ("" if count == 1 else "s")
