"""What people decide about a cluster of failures: whose it is, whether it is muted, what it is merged with; Undo."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from django.contrib.auth import get_user_model
from django.utils import timezone

from adaexplore_site.core.audit import ActionRefused, action_done, action_on
from adaexplore_site.core.models import AuditEntry
from memory.clusters import proposing
from memory.clusters.proposing_undo import propose_undo
from memory.clusters.queries import members
from memory.failures.models import Failure, FailureCluster
from memory.rules.desk import rules_locked

if TYPE_CHECKING:
    from django.contrib.auth.models import AbstractBaseUser

OBJECT = "cluster"
UNDO = "cluster.undo"
PROPOSE = proposing.VERB
UNDOABLE = ("cluster.assign", "cluster.mute", "cluster.unmute", "cluster.merge", "cluster.split", PROPOSE)


def cluster_assign(
    *, cluster: FailureCluster, assignee: AbstractBaseUser | None, user: AbstractBaseUser | None, key: str | None = None
) -> AuditEntry | None:
    """Say whose it is to look into; None takes it from everybody."""

    def change(row: FailureCluster) -> dict[str, Any] | None:
        wanted = assignee.pk if assignee is not None else None
        return None if row.assignee_id == wanted else {"assignee_id": wanted}

    return _act("cluster.assign", cluster, user, key, change)


def cluster_mute(
    *, cluster: FailureCluster, user: AbstractBaseUser | None, key: str | None = None
) -> AuditEntry | None:
    """Leave it out of the lists until it has more than twice the failures of now."""

    def change(row: FailureCluster) -> dict[str, Any] | None:
        count = Failure.objects.filter(cluster_id__in=members(row)).count()
        if row.muted_at is not None and count <= 2 * row.muted_count:
            return None
        return {"muted_at": timezone.now().isoformat(), "muted_count": count}

    return _act("cluster.mute", cluster, user, key, change)


def cluster_unmute(
    *, cluster: FailureCluster, user: AbstractBaseUser | None, key: str | None = None
) -> AuditEntry | None:
    """Show it again."""

    def change(row: FailureCluster) -> dict[str, Any] | None:
        return None if row.muted_at is None else {"muted_at": None, "muted_count": 0}

    return _act("cluster.unmute", cluster, user, key, change)


def cluster_merge(
    *, cluster: FailureCluster, into: FailureCluster, user: AbstractBaseUser | None, key: str | None = None
) -> AuditEntry | None:
    """Show its failures, and those of what was merged into it, under another one. Raises ActionRefused."""

    def change(row: FailureCluster) -> dict[str, Any] | None:
        target = FailureCluster.objects.select_for_update().get(pk=into.pk)
        if target.merged_into_id is not None:
            target = FailureCluster.objects.select_for_update().get(pk=target.merged_into_id)
        if target.pk == row.pk:
            raise ActionRefused("A cluster cannot be merged into itself. Choose another one.")
        if row.merged_into_id == target.pk:
            return None
        if row.merged_into_id is not None:
            raise ActionRefused("It is merged into another one already. Split it off first.")
        moved = list(FailureCluster.objects.filter(merged_into=row).order_by("pk").values_list("pk", flat=True))
        FailureCluster.objects.filter(pk__in=moved).update(merged_into=target)
        return {"merged_into_id": target.pk, "moved": moved}

    return _act("cluster.merge", cluster, user, key, change)


def cluster_split(
    *, cluster: FailureCluster, user: AbstractBaseUser | None, key: str | None = None
) -> AuditEntry | None:
    """Show a merged cluster by itself again."""

    def change(row: FailureCluster) -> dict[str, Any] | None:
        return None if row.merged_into_id is None else {"merged_into_id": None}

    return _act("cluster.split", cluster, user, key, change)


@rules_locked()
def cluster_undo(*, action: AuditEntry, user: AbstractBaseUser | None, key: str | None = None) -> AuditEntry:
    """Take back an act on a cluster, while nothing has changed what it changed. Raises ActionRefused."""
    done = action_done(key=key, verb=UNDO)
    if done is not None:
        return done
    if AuditEntry.objects.filter(
        verb=UNDO, object_type=OBJECT, object_id=action.object_id, after__of=action.pk
    ).exists():
        raise ActionRefused("This was undone already.")
    if action.verb == PROPOSE:
        return propose_undo(action=action, verb=UNDO, user=user, key=key)
    row = _locked(int(action.object_id)) if action.object_type == OBJECT and action.verb in UNDOABLE else None
    if row is None:
        raise ActionRefused("There is nothing to undo: the act is of another kind, or its cluster is gone.")
    changed = _fields(action)
    if not holds(action, row):
        raise ActionRefused("Something has changed it since. Undo that first, or decide anew.")
    before = {name: action.before[name] for name in changed}
    _check_restorable(row, before)
    moved = action.after.get("moved", [])
    FailureCluster.objects.filter(pk__in=moved, merged_into_id=changed.get("merged_into_id")).update(merged_into=row)
    FailureCluster.objects.filter(pk=row.pk).update(**before)
    return action_on(
        verb=UNDO, on=(OBJECT, row.pk), user=user, key=key, before=changed, after={"of": action.pk, **before}
    )


def holds(action: AuditEntry, row: FailureCluster) -> bool:
    """Whether the cluster still is what the act made of it."""
    return _values(row, _fields(action)) == _fields(action)


def _fields(action: AuditEntry) -> dict[str, Any]:
    return {name: value for name, value in action.after.items() if name != "moved"}


def _act(
    verb: str,
    cluster: FailureCluster,
    user: AbstractBaseUser | None,
    key: str | None,
    change: Callable[[FailureCluster], dict[str, Any] | None],
) -> AuditEntry | None:
    """Lock the row, write what `change` says, and the audit. The same key gives the first act again. None, and
    nothing written, where `change` finds that it is so already. Raises ActionRefused.

    One act at a time: two merges at once would each wait for the other's row, and the second of two equal submits
    would not see the first.
    """
    with rules_locked():
        done = action_done(key=key, verb=verb)
        if done is not None:
            return done
        row = _locked(cluster.pk)
        if row is None:
            raise ActionRefused("This cluster no longer exists: its failures belong to another one now.")
        after = change(row)
        if after is None:
            return None
        fields = {name: value for name, value in after.items() if name != "moved"}
        before = _values(row, fields)
        FailureCluster.objects.filter(pk=row.pk).update(**fields)
        return action_on(verb=verb, on=(OBJECT, row.pk), user=user, key=key, before=before, after=after)


def _check_restorable(row: FailureCluster, before: dict[str, Any]) -> None:
    """Raise ActionRefused where giving these values back would point at nothing, or merge into what is merged."""
    assignee = before.get("assignee_id")
    if assignee is not None and not get_user_model().objects.filter(pk=assignee).exists():
        raise ActionRefused("The person that it was assigned to has no account any more. Assign it anew.")
    into = before.get("merged_into_id")
    if into is None:
        return
    if not FailureCluster.objects.filter(pk=into, merged_into__isnull=True).exists():
        raise ActionRefused("The cluster that it was merged into is gone, or merged itself. Merge it anew.")
    if FailureCluster.objects.filter(merged_into=row).exists():
        raise ActionRefused("Others were merged into it since. Merge it anew.")


def _locked(pk: int) -> FailureCluster | None:
    return FailureCluster.objects.select_for_update().filter(pk=pk).first()


def _values(row: FailureCluster, names: dict[str, Any]) -> dict[str, Any]:
    values = {name: getattr(row, name) for name in names}
    if values.get("muted_at") is not None:
        values["muted_at"] = values["muted_at"].isoformat()
    return values
