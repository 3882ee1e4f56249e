"""Decisions of people on rules and clusters, one function for each action."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from adaexplore_site.actions import registry
from adaexplore_site.actions.action import Call
from adaexplore_site.core.models import AuditEntry
from memory.failures.models import Failure, FailureCluster
from memory.prompting.scopes import Scope
from memory.rules.models import Rule, Sighting
from tests.memory.acting import act


def _on_rule(name: str, rule_id: int, **given: Any) -> Any:
    return act(name, where={"rule_id": rule_id}, **given)


def rule_approve(**card: Any) -> Any:
    return _on_rule("rule.approve", **card)


def rule_reject(**card: Any) -> Any:
    return _on_rule("rule.reject", **card)


def rule_retire(**card: Any) -> Any:
    return _on_rule("rule.retire", **card)


def rule_restore(**card: Any) -> Any:
    return _on_rule("rule.restore", **card)


def rule_defer(**card: Any) -> Any:
    return _on_rule("rule.defer", **card)


def rule_edit(**card: Any) -> Any:
    return _on_rule("rule.edit", **card)


def rule_scope(*, scope: Scope, **card: Any) -> Any:
    return _on_rule("rule.scope", **vars(scope), **card)


def rule_rollback(**card: Any) -> Any:
    return _on_rule("rule.rollback", **card)


def rule_merge(**card: Any) -> Any:
    return _on_rule("rule.merge", **card)


def rule_unmerge(**card: Any) -> Any:
    return _on_rule("rule.unmerge", **card)


def rule_split(*, failures: Any, **card: Any) -> Any:
    return _on_rule("rule.split", failure=list(failures), **card)


def rule_create(
    *, text: str, scope: Scope | None = None, failures: Iterable[Failure] = (), pattern: str = "", **given: Any
) -> AuditEntry:
    """A new rule with sightings: its number is the entry's `object_id`."""
    entry = act("rule.create", where={}, text=text, **vars(scope or Scope()), **given)
    Rule.objects.filter(pk=entry.object_id).update(pattern=pattern)
    Sighting.objects.bulk_create(Sighting(rule_id=int(entry.object_id), failure=row) for row in failures)
    return entry


def rules_bulk(**given: Any) -> AuditEntry:
    """On the rules of a filter: its fields are given, too."""
    return act("rules.bulk", where={}, **given)


def undo(action_id: int, user: Any = None, key: str | None = None) -> Any:
    """Undo an entry of the audit log."""
    row = AuditEntry.objects.get(pk=action_id)
    return registry.reader(row).undo(row, Call(user, key)).entry


def cluster_assign(*, cluster: FailureCluster, assignee: Any, **given: Any) -> Any:
    name = assignee.get_username() if assignee else ""
    return act("cluster.assign", where={"key": cluster.key}, assignee=name, **given)


def cluster_mute(*, cluster: FailureCluster, **given: Any) -> Any:
    return act("cluster.mute", where={"key": cluster.key}, **given)


def cluster_unmute(*, cluster: FailureCluster, **given: Any) -> Any:
    return act("cluster.unmute", where={"key": cluster.key}, **given)


def cluster_merge(*, cluster: FailureCluster, into: FailureCluster, **given: Any) -> Any:
    return act("cluster.merge", where={"key": cluster.key}, into=into.key, **given)


def cluster_split(*, cluster: FailureCluster, **given: Any) -> Any:
    return act("cluster.split", where={"key": cluster.key}, **given)


def cluster_propose(*, cluster: FailureCluster, claim: str, scope: Scope | None = None, **given: Any) -> Rule:
    fields = {} if scope is None else vars(scope)
    entry = act("cluster.propose", where={"key": cluster.key}, claim=claim, **fields, **given)
    return Rule.objects.get(pk=entry.after["rule"])
