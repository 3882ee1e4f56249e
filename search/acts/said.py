"""An act in words: what was done, to what, and what it changed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from django.contrib.auth.models import User
from django.urls import reverse

from adaexplore_site.models import Action
from judge.models import Device, Problem
from memory.models import AdaptRun, FailureCluster, Rule
from memory.rule_words import act_said
from search.act_words import act_detail, act_text
from search.failure_words import ActWords
from search.models import Campaign, ModelPrice, Run, SavedView
from search.saved.places import PLACES, address_of

MOST_CHANGES = 4
_HIDDEN = {  # row numbers, whole lists, and what the words say already
    "number", "revision", "current", "decided_at", "decided_by", "seq", "muted_count", "muted_at", "back_to", "moved",
    "other", "acts", "made", "counts", "added", "lessons", "assignee_id", "merged_into_id", "of", "undoes", "action",
    "own", "doubt", "doubt_reason", "retired", "by", "recheck", "rival", "note", "budget", "passed", "within",
}  # fmt: skip

_SAID = {
    "campaign.start": "Started", "campaign.pause": "Paused", "campaign.resume": "Resumed", "campaign.stop": "Stopped",
    "adapt.start": "Started", "adapt.pause": "Paused", "adapt.resume": "Resumed", "adapt.stop": "Stopped",
    "device.activate": "Activated", "device.drain": "Drained", "device.quarantine": "Quarantined",
    "device.check": "A check was asked for", "device.drift": "Its baselines were taken to be out of date",
    "problem.upload": "Uploaded", "selftest.start": "A self-test was started",
    "spend.budget": "Set", "spend.alert": "Most of it is spent, or it is passed",
    "spend.pause": "It was passed: what pays was paused",
    "spend.pause.undo": "Undone: the pause",
    "price.set": "Set", "price.withdraw": "Withdrawn", "price.restore": "In use again",
    "view.save": "Saved", "view.rename": "Renamed", "view.delete": "Deleted", "view.restore": "Put back",
    "member.invite": "Invited", "member.roles": "Roles changed", "member.link": "A sign-in link was made",
    "member.off": "Switched off", "member.on": "Switched on",
    "token.issue": "Issued", "token.revoke": "Revoked",
    "webhook.add": "Added", "webhook.on": "Switched on", "webhook.off": "Switched off", "webhook.test": "Tested",
    "webhook.remove": "Removed",
}  # fmt: skip


@dataclass(frozen=True)
class Subject:
    """What an act was done to, as a link; without `url` it is gone or has no page."""

    kind: str
    label: str
    url: str = ""


@dataclass(frozen=True)
class Subjects:
    """The rows that a page of acts speaks of, by kind and number: one query for each kind."""

    runs: Mapping[int, Run] = field(default_factory=dict)
    campaigns: Mapping[int, Campaign] = field(default_factory=dict)
    adapts: Mapping[int, AdaptRun] = field(default_factory=dict)
    devices: Mapping[int, Device] = field(default_factory=dict)
    rules: Mapping[int, Rule] = field(default_factory=dict)
    clusters: Mapping[int, FailureCluster] = field(default_factory=dict)
    problems: Mapping[int, Problem] = field(default_factory=dict)
    people: Mapping[int, User] = field(default_factory=dict)
    prices: Mapping[int, ModelPrice] = field(default_factory=dict)
    views: Mapping[int, SavedView] = field(default_factory=dict)
    words: ActWords | None = None  # of acts on clusters

    @classmethod
    def of(cls, actions: Iterable[Action]) -> Subjects:
        """The rows that are still there."""
        ids: dict[str, set[int]] = {}
        actions = list(actions)
        for action in actions:
            ids.setdefault(action.object_type, set()).add(_number(action))
        runs = Run.objects.select_related("problem", "device").filter(pk__in=ids.get("run", ()))
        problems = Problem.objects.only("title", "slug").filter(pk__in=ids.get("problem", ()))
        return cls(
            runs={run.pk: run for run in runs},
            campaigns=Campaign.objects.in_bulk(ids.get("campaign", ())),
            adapts=AdaptRun.objects.in_bulk(ids.get("adapt", ())),
            devices=Device.objects.in_bulk(ids.get("device", ())),
            rules=Rule.objects.select_related("current").in_bulk(ids.get("rule", ())),
            clusters=FailureCluster.objects.in_bulk(ids.get("cluster", ())),
            problems={problem.pk: problem for problem in problems},
            words=ActWords.of([one for one in actions if one.object_type == "cluster"], 0)
            if "cluster" in ids
            else None,
            prices=ModelPrice.objects.in_bulk(ids.get("price", ())),
            views=SavedView.objects.in_bulk(ids.get("view", ())),
            people=User.objects.prefetch_related("groups").in_bulk(ids.get("user", ())),
        )

    def subject(self, action: Action) -> Subject:
        """The thing of one act, by its name of today."""
        pk, kind = _number(action), action.object_type
        match kind:
            case "run":
                run = self.runs.get(pk)
                removed = action.before.get("title", "") if run is None else ""
                label = f"{_title(run)} #{pk}" if run else f"{removed} #{pk}".strip()
                return Subject("search", label, reverse("run-detail" if run else "run-activity", args=[pk]))
            case "campaign" if pk in self.campaigns:
                return Subject("campaign", self.campaigns[pk].title, reverse("campaign-detail", args=[pk]))
            case "adapt" if pk in self.adapts:
                return Subject("adapt run", self.adapts[pk].title, reverse("adapt-detail", args=[pk]))
            case "device" if pk in self.devices:
                return Subject("device", self.devices[pk].name, reverse("device-detail", args=[pk]))
            case "rule" if pk in self.rules:
                return Subject("rule", f"rule {pk}", reverse("rule-detail", args=[pk]))
            case "rules":
                return Subject("rules", "several rules", reverse("rule-list"))
            case "cluster" if pk in self.clusters:
                row = self.clusters[pk]
                return Subject("cluster", row.short_title, reverse("failure-cluster", args=[row.key]))
            case "problem" if pk in self.problems:
                problem = self.problems[pk]
                return Subject("problem", problem.title, reverse("problem-detail", args=[problem.slug]))
            case "selftest":
                name = str(action.after.get("device", ""))
                return Subject("judge", name, reverse("self-test-detail", args=[name]) if name else "")
            case "budget":
                return Subject("budget", "budget of all searches", reverse("spend"))
            case "price" if pk in self.prices:
                return Subject("price", f"price of {self.prices[pk].model}", reverse("spend"))
            case "view" if pk in self.views:
                return _view(self.views[pk])
            case "user" if pk in self.people:
                return Subject("member", self.people[pk].username)
            case "webhook":
                address = action.after.get("address") or action.before.get("address", "")
                return Subject("webhook", str(address), reverse("settings-tab", args=["webhooks"]))
            case "token":
                return Subject("token", str(action.after.get("name", "")), reverse("settings-tab", args=["tokens"]))
        return Subject(kind, f"{kind} {action.object_id}, which is gone")


def _view(row: SavedView) -> Subject:
    """A private view is named to nobody else."""
    page = PLACES[row.place][0]
    if not row.shared:
        return Subject("view", f"a private view of {page}")
    return Subject("view", f"{row.name}, a view of {page}", address_of(row.place, row.query))


def said(action: Action, subjects: Subjects) -> str:
    """What was done, without the thing it was done to."""
    if action.object_type == "cluster" and subjects.words is not None:
        text = replace(subjects.words, own=_number(action)).said(action)
        return f"{text[:1].upper()}{text[1:]}"
    if action.object_type in ("rule", "rules"):
        return act_said(action)
    if action.object_type == "run":
        number = action.after.get("number")
        text = act_text(action.verb, action.after)
        return f"Node {number} {text}" if number is not None else f"{text[:1].upper()}{text[1:]}"
    return _SAID.get(action.verb, action.verb.replace(".", " "))


def change(action: Action) -> str:
    """What changed: `state running → paused`, or the words of a note."""
    if action.object_type == "run" and (detail := act_detail(action.verb, action.after, action.before)):
        return detail
    before, after = action.before, action.after
    pairs = [(name, before.get(name), after[name]) for name in after if name not in _HIDDEN]
    told = [_pair(name, old, new, name in before) for name, old, new in pairs if old != new and _plain(new)]
    return ", ".join(told[:MOST_CHANGES]) + (
        f" and {len(told) - MOST_CHANGES} more" if len(told) > MOST_CHANGES else ""
    )


def _pair(name: str, old: Any, new: Any, known: bool) -> str:
    words = name.removesuffix("_id").replace("_", " ")
    return f"{words} {_value(old)} → {_value(new)}" if known else f"{words} {_value(new)}"


def _plain(value: Any) -> bool:
    """Whether it fits a line: no whole rows, no empty lists."""
    return not isinstance(value, dict) and value != [] and value != ""


def _value(value: Any) -> str:
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return ", ".join(map(str, value[:8])) + ("…" if len(value) > 8 else "") if value else "none"
    return str(value)[:200]


def _title(run: Run) -> str:
    return run.title or run.problem.title


def _number(action: Action) -> int:
    return int(action.object_id) if action.object_id.isdigit() and len(action.object_id) < 18 else 0
