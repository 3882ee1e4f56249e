"""Actions on clusters of failures: assign, mute, merge, split, propose a rule, undo."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from django import forms
from django.contrib.auth.models import User
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext, ngettext
from django.utils.translation import gettext_lazy as _

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
from adaexplore_site.core.audit import ActionRefused, FieldsRefused, action_done, action_on
from adaexplore_site.core.models import AuditEntry
from memory.failures.models import Failure, FailureCluster
from memory.failures.proposing import propose, withdraw
from memory.failures.queries import members
from memory.prompting.scopes import FIELDS
from memory.rules.actions import ScopeForm
from memory.rules.models import Rule
from memory.rules.services import rules_locked

UNDO_VERB = "cluster.undo"
GONE = _("a cluster that no longer exists")


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
        return f"“{row.title}”" if row is not None else str(GONE)


class ClusterKind(Kind):
    """Clusters as the activity log shows them."""

    name = "cluster"

    def load(self, entries: Sequence[AuditEntry]) -> ClusterEntries:
        wanted = [entry.after["of"] for entry in entries if entry.verb == UNDO_VERB and "of" in entry.after]
        undos = AuditEntry.objects.in_bulk(wanted)
        named = [*entries, *undos.values()]
        ids = {int(entry.object_id) for entry in named}
        ids |= {into for entry in named if (into := entry.after.get("merged_into_id"))}
        people = User.objects.filter(pk__in={who for entry in named if (who := entry.after.get("assignee_id"))})
        mine = AuditEntry.objects.filter(verb=UNDO_VERB, object_type=self.name).order_by()
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
    """A change of a cluster's fields. It is undone while the cluster has what the entry gave it."""

    inverse = UNDO_VERB

    def run(self, target: FailureCluster, data: dict[str, Any], call: Call) -> Result:
        """Lock the row, write what `change` says, and the audit entry. A key that was used gives the first entry.

        One at a time: two merges at once would each wait for the other's row.
        """
        with rules_locked():
            entry = action_done(key=call.key, verb=self.name)
            if entry is None:
                row = _locked(self.row_of(target, data).pk)
                if row is None:
                    text = gettext("This cluster no longer exists: its failures belong to another one now.")
                    raise ActionRefused(text)
                after = self.change(row, data)
                if after is not None:
                    before = _values(row, _fields(after))
                    FailureCluster.objects.filter(pk=row.pk).update(**_fields(after))
                    entry = action_on(verb=self.name, on=(KIND.name, row.pk), before=before, after=after, **call.who)
        return Result(self.message(data), entry=entry)

    def row_of(self, target: FailureCluster, data: Mapping[str, Any]) -> FailureCluster:
        """The cluster that is changed."""
        return target

    def change(self, row: FailureCluster, data: Mapping[str, Any]) -> dict[str, Any] | None:
        """New values of the row's fields; None where it has them already. Raises ActionRefused."""
        raise NotImplementedError

    def message(self, data: Mapping[str, Any]) -> str:
        """One sentence for the person."""
        raise NotImplementedError

    def standing(self, entry: AuditEntry, loaded: ClusterEntries) -> Standing:
        row = loaded.own(entry)
        if row is None:
            return Standing(why_not=_("the cluster no longer exists"))
        if entry.pk in loaded.undone:
            return UNDONE
        return UNDO if self.holds(entry, row) else CHANGED

    def holds(self, entry: AuditEntry, row: FailureCluster) -> bool:
        """Whether the cluster still is what the entry made of it."""
        return _values(row, _fields(entry.after)) == _fields(entry.after)

    def undo(self, entry: AuditEntry, call: Call) -> Result:
        with rules_locked():
            done = action_done(key=call.key, verb=UNDO_VERB)
            if done is None:
                mine = AuditEntry.objects.filter(verb=UNDO_VERB, object_type=KIND.name, object_id=entry.object_id)
                if mine.filter(after__of=entry.pk).exists():
                    raise ActionRefused(gettext("This was undone already."))
                before, after = self.restore(entry)
                on = (KIND.name, int(entry.object_id))
                done = action_on(verb=UNDO_VERB, on=on, before=before, after={"of": entry.pk, **after}, **call.who)
        return Result(self.undone_message(done), entry=done)

    def restore(self, entry: AuditEntry) -> tuple[dict[str, Any], dict[str, Any]]:
        """Put back what the entry changed. Returns the values before and after that. Raises ActionRefused."""
        row = _locked(int(entry.object_id))
        if row is None:
            raise ActionRefused(gettext("The cluster no longer exists: there is nothing to undo."))
        if not self.holds(entry, row):
            raise ActionRefused(gettext("The cluster was changed since. Undo that first, or decide again."))
        changed = _fields(entry.after)
        before = {name: entry.before[name] for name in changed}
        _check_restorable(row, before)
        moved = FailureCluster.objects.filter(pk__in=entry.after.get("moved", []))
        moved.filter(merged_into_id=changed.get("merged_into_id")).update(merged_into=row)
        FailureCluster.objects.filter(pk=row.pk).update(**before)
        return changed, before

    def undone_message(self, done: AuditEntry) -> str:
        return gettext("Undone.")


def _locked(pk: int) -> FailureCluster | None:
    return FailureCluster.objects.select_for_update().filter(pk=pk).first()


def _fields(after: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in after.items() if name != "moved"}


def _values(row: FailureCluster, names: Mapping[str, Any]) -> dict[str, Any]:
    values = {name: getattr(row, name) for name in names}
    if values.get("muted_at") is not None:
        values["muted_at"] = values["muted_at"].isoformat()
    return values


def _check_restorable(row: FailureCluster, before: Mapping[str, Any]) -> None:
    """Raise ActionRefused where these values would point at nothing, or merge into what is merged."""
    assignee = before.get("assignee_id")
    if assignee is not None and not User.objects.filter(pk=assignee).exists():
        text = gettext("The person that it was assigned to has no account any more. Assign it again.")
        raise ActionRefused(text)
    into = before.get("merged_into_id")
    if into is None:
        return
    if not FailureCluster.objects.filter(pk=into, merged_into__isnull=True).exists():
        text = gettext("The cluster that it was merged into no longer exists, or was merged itself. Merge it again.")
        raise ActionRefused(text)
    if FailureCluster.objects.filter(merged_into=row).exists():
        raise ActionRefused(gettext("Others were merged into it since. Merge it again."))


def _of_key(text: str) -> FailureCluster:
    """Raises ValidationError."""
    row = FailureCluster.objects.filter(key=text[:12]).first()
    if row is None:
        why = gettext("There is no cluster %(key)r. Enter the key of a cluster: twelve letters and digits.")
        raise forms.ValidationError(why % {"key": text[:12]})
    return row


@register
class AssignCluster(ClusterChange):
    """Say who looks into a cluster."""

    class Form(ActionForm):
        assignee = forms.CharField(required=False, help_text=_("User name; empty to unassign."))

        def clean_assignee(self) -> User | None:
            name = self.cleaned_data["assignee"]
            person = User.objects.filter(username=name, is_active=True).first() if name else None
            if name and person is None:
                text = gettext("There is no member %(name)r. Choose one from the list.")
                raise forms.ValidationError(text % {"name": name[:60]})
            return person

    name, label = "cluster.assign", _("Assign the cluster")

    def change(self, row: FailureCluster, data: Mapping[str, Any]) -> dict[str, Any] | None:
        wanted = data["assignee"].pk if data["assignee"] else None
        return None if row.assignee_id == wanted else {"assignee_id": wanted}

    def message(self, data: Mapping[str, Any]) -> str:
        if not data["assignee"]:
            return gettext("The cluster is unassigned.")
        return gettext("Assigned to %(who)s.") % {"who": data["assignee"].get_username()}

    def describe(self, entry: AuditEntry, loaded: ClusterEntries) -> str:
        who = entry.after.get("assignee_id")
        if not who:
            return gettext("Unassigned")
        return gettext("Assigned to %(who)s") % {"who": loaded.people.get(who, gettext("a former member"))}


@register
class MuteCluster(ClusterChange):
    """Leave a cluster out of the lists until it has more than twice the failures of now."""

    name, label, inverse = "cluster.mute", _("Mute the cluster"), "cluster.unmute"
    key = "m"

    def change(self, row: FailureCluster, data: Mapping[str, Any]) -> dict[str, Any] | None:
        number = Failure.objects.filter(cluster_id__in=members(row)).count()
        if row.muted_at is not None and number <= 2 * row.muted_count:
            return None
        return {"muted_at": timezone.now().isoformat(), "muted_count": number}

    def message(self, data: Mapping[str, Any]) -> str:
        return gettext("Muted until its failures have more than doubled.")

    def describe(self, entry: AuditEntry, loaded: ClusterEntries) -> str:
        number = entry.after.get("muted_count", 0)
        return ngettext("Muted at %(n)d failure", "Muted at %(n)d failures", number) % {"n": number}


@register
class UnmuteCluster(ClusterChange):
    """List a muted cluster again."""

    name, label, inverse, done = "cluster.unmute", _("Unmute the cluster"), "cluster.mute", _("Unmuted")

    def change(self, row: FailureCluster, data: Mapping[str, Any]) -> dict[str, Any] | None:
        return None if row.muted_at is None else {"muted_at": None, "muted_count": 0}

    def message(self, data: Mapping[str, Any]) -> str:
        return gettext("The cluster is unmuted.")


@register
class MergeCluster(ClusterChange):
    """Show the failures of a cluster, and of what was merged into it, under another one."""

    class Form(ActionForm):
        into = forms.CharField(help_text=_("Key of the other cluster."))

        def clean_into(self) -> FailureCluster:
            return _of_key(self.cleaned_data["into"])

    name, label, inverse = "cluster.merge", _("Merge the cluster into another"), "cluster.split"

    def change(self, row: FailureCluster, data: Mapping[str, Any]) -> dict[str, Any] | None:
        target = FailureCluster.objects.select_for_update().get(pk=data["into"].pk)
        if target.merged_into_id is not None:
            target = FailureCluster.objects.select_for_update().get(pk=target.merged_into_id)
        if target.pk == row.pk:
            raise ActionRefused(gettext("A cluster cannot be merged into itself. Choose another one."))
        if row.merged_into_id == target.pk:
            return None
        if row.merged_into_id is not None:
            raise ActionRefused(gettext("It is merged into another one already. Split it off first."))
        moved = list(FailureCluster.objects.filter(merged_into=row).order_by("pk").values_list("pk", flat=True))
        FailureCluster.objects.filter(pk__in=moved).update(merged_into=target)
        return {"merged_into_id": target.pk, "moved": moved}

    def message(self, data: Mapping[str, Any]) -> str:
        return gettext("Its failures are shown under “%(title)s” now.") % {"title": data["into"].title}

    def describe(self, entry: AuditEntry, loaded: ClusterEntries) -> str:
        return gettext("Merged into %(title)s") % {"title": loaded.title(entry.after["merged_into_id"])}


@register
class SplitCluster(ClusterChange):
    """Show a merged cluster by itself again."""

    class Form(ActionForm):
        part = forms.CharField(
            required=False, help_text=_("Key of a cluster that was merged into it; empty for itself.")
        )

        def clean_part(self) -> FailureCluster | None:
            return _of_key(self.cleaned_data["part"]) if self.cleaned_data["part"] else None

    name, label, done = "cluster.split", _("Split the cluster off"), _("Split off again")

    def row_of(self, target: FailureCluster, data: Mapping[str, Any]) -> FailureCluster:
        part: FailureCluster = data["part"] or target
        if part.pk != target.pk and part.merged_into_id != target.pk:
            text = gettext("The cluster %(key)s is not merged into this one.")
            raise FieldsRefused({"part": text % {"key": part.key}})
        return part

    def change(self, row: FailureCluster, data: Mapping[str, Any]) -> dict[str, Any] | None:
        return None if row.merged_into_id is None else {"merged_into_id": None}

    def message(self, data: Mapping[str, Any]) -> str:
        return gettext("The cluster is shown by itself again.")


@register
class ProposeRule(ClusterChange):
    """Propose a rule with the failures of a cluster as its sightings. It changes rules, not the cluster."""

    class Form(ScopeForm):
        claim = forms.CharField(
            required=False,
            max_length=2000,
            widget=forms.Textarea,
            help_text=_("What not to do, and what to do instead."),
        )

        def clean(self) -> dict[str, Any]:
            """Without any field of the scope, the scope that its failures suggest."""
            data = super().clean()
            return data if any(name in self.data for name in FIELDS) else {**data, "scope": None}

    name, label = "cluster.propose", _("Propose a rule from the cluster")
    key = "y"

    def run(self, target: FailureCluster, data: dict[str, Any], call: Call) -> Result:
        with rules_locked():
            entry = action_done(key=call.key, verb=self.name)
            if entry is None:
                before, after = propose(target, data["claim"], data["scope"], call.user)
                entry = action_on(verb=self.name, on=(KIND.name, target.pk), before=before, after=after, **call.who)
        rule = Rule.objects.get(pk=entry.after["rule"])
        number = rule.sightings.count()
        if rule.state == Rule.State.PROPOSED:
            text = ngettext(
                "Rule %(rule)d has %(n)d sighting now and waits for review.",
                "Rule %(rule)d has %(n)d sightings now and waits for review.",
                number,
            )
        else:
            text = ngettext(
                "Rule %(rule)d has %(n)d sighting now and stays %(state)s.",
                "Rule %(rule)d has %(n)d sightings now and stays %(state)s.",
                number,
            )
        return Result(text % {"rule": rule.pk, "n": number, "state": rule.info.label}, entry=entry)

    def restore(self, entry: AuditEntry) -> tuple[dict[str, Any], dict[str, Any]]:
        withdraw(entry)
        return {}, {"rule": entry.after["rule"], "withdrawn": entry.after["new"]}

    def undone_message(self, done: AuditEntry) -> str:
        if done.after["withdrawn"]:
            text = gettext("Undone: rule %(rule)d is withdrawn.")
        else:
            text = gettext("Undone: rule %(rule)d has its sightings of before.")
        return text % {"rule": done.after["rule"]}

    def describe(self, entry: AuditEntry, loaded: ClusterEntries) -> str:
        number = entry.after.get("sightings", 0)
        text = ngettext(
            "Proposed rule %(rule)s with %(n)d sighting", "Proposed rule %(rule)s with %(n)d sightings", number
        )
        return text % {"rule": entry.after.get("rule"), "n": number}

    def standing(self, entry: AuditEntry, loaded: ClusterEntries) -> Standing:
        if "added" not in entry.after:
            return Standing(why_not=_("reject the rule on its page instead"))
        return super().standing(entry, loaded)

    def holds(self, entry: AuditEntry, row: FailureCluster) -> bool:
        return True


@register
class UndoCluster(ClusterAction):
    """Undo an action on a cluster."""

    class Form(ActionForm):
        action = forms.IntegerField(widget=forms.HiddenInput, help_text=_("Number of the entry in the activity log."))

    name, label = UNDO_VERB, _("Undo an action on the cluster")
    pages, page_key = (), False
    irreversible = _("do the action again instead")

    def run(self, target: FailureCluster, data: dict[str, Any], call: Call) -> Result:
        entry = AuditEntry.objects.filter(pk=data["action"], object_type=KIND.name).first()
        if entry is None:
            text = gettext("There is no such entry of a cluster. Reload the page and use its buttons.")
            raise ActionRefused(text)
        return registry.reader(entry).undo(entry, call)

    def describe(self, entry: AuditEntry, loaded: ClusterEntries) -> str:
        first = loaded.undos.get(entry.after.get("of", 0))
        if first is None:
            return gettext("Undone")
        what = registry.reader(first).describe(first, loaded)
        return gettext("Undone: %(what)s") % {"what": what[:1].lower() + what[1:]}

    def detail(self, entry: AuditEntry, loaded: ClusterEntries) -> str:
        return ""
