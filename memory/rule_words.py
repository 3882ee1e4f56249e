"""Acts on rules in words: for the history of a rule, for messages, for the button that undoes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from adaexplore_site.models import Action

_DONE = {
    "rule.approve": "approved",
    "rule.reject": "rejected",
    "rule.retire": "retired",
    "rule.restore": "proposed again",
    "rule.defer": "deferred",
    "rule.edit": "edited",
    "rule.scope": "given another scope",
    "rule.rollback": "rolled back",
    "rule.merge": "merged",
    "rule.unmerge": "parted again",
    "rule.split": "split",
    "rule.create": "written",
    "rule.split_off": "split off another rule",
    "rule.take_in": "given another rule's sightings",
    "rule.give_back": "parted from another rule",
}
_BULK = {"approve": "approved", "reject": "rejected", "retire": "retired", "defer": "deferred", "restore": "restored"}


def act_said(action: Action) -> str:
    """What was done, as a sentence: "Rule 12 was approved."."""
    after: Mapping[str, Any] = action.after
    if action.verb == "rules.import":
        return f"{_rules(len(after['made']))} imported, {after['known']} known already."
    if action.verb == "rules.bulk":
        return f"{_rules(after['count'])} {_BULK.get(after['act'], after['act'])} at once."
    if action.verb == "rules.export":
        return f"{_rules(after['count'])} exported."
    if action.verb == "rule.undo":
        left = f" {_rules(len(after['left']))} changed since stay as they are." if after.get("left") else ""
        return f"Undone: {act_name(after['verb'])}.{left}"
    return f"Rule {action.object_id} was {_DONE.get(action.verb, 'changed')}{_detail(action)}."


def _detail(action: Action) -> str:
    after = action.after
    match action.verb:
        case "rule.merge":
            return f" into rule {after['into']}"
        case "rule.split":
            return f": rule {after['new']} has {_count(len(after['moved']), 'sighting')}"
        case "rule.take_in":
            return f" (rule {after['from']})"
        case "rule.split_off":
            return f" (rule {after['split_from']})"
        case "rule.reject" | "rule.retire":
            return f": {after['reject_reason']}"
        case "rule.defer":
            return f" by {_count(after['days'], 'day')}" if "days" in after else ""
        case "rule.approve":
            return " by its own author" if after.get("own") else ""
    return ""


def act_name(verb: str) -> str:
    """The act as a noun phrase: what an undo took back."""
    return _NAMES.get(verb, verb.split(".")[-1])


_NAMES = {
    "rule.approve": "approval",
    "rule.reject": "rejection",
    "rule.retire": "retirement",
    "rule.defer": "deferral",
    "rule.scope": "change of scope",
    "rule.rollback": "roll back",
    "rule.take_in": "merge of another rule",
    "rule.give_back": "parting from another rule",
    "rules.import": "import",
    "rules.bulk": "batch",
}


def _rules(count: int) -> str:
    return _count(count, "rule")


def _count(count: int, noun: str) -> str:
    return f"{count} {noun}" + ("" if count == 1 else "s")
