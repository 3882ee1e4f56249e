"""Whether an act can still be taken back, and in a few words why not. The services that do it decide once more."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from django.contrib.auth.models import User
from django.db.models import Max

from adaexplore_site.access import Role
from adaexplore_site.members import roles_held
from adaexplore_site.models import Action
from adaexplore_site.registry.acts import ACTS
from memory.models import FailureCluster, Rule
from memory.services import clusters
from memory.services.rules_undo import UNDO as RULE_UNDO
from memory.services.rules_undo import UNDOABLE as RULE_ACTS
from search.activity import run_acts
from search.acts.said import Subjects
from search.models import ModelPrice, SavedView
from search.services import saved_views, spend_budget, spend_prices
from search.spend.budget import budget_now

STATES = ("campaign", "adapt")
_STAYS = {act.verb: act.stays or act.confirm for act in ACTS}
_FLIPS = {  # of what starts many searches: verb -> state in which it can be taken back, what does so
    f"{kind}.{verb}": (state, back)
    for kind in STATES
    for verb, state, back in (("pause", "paused", "resume"), ("resume", "running", "pause"))
}
_DEVICE = ("device.activate", "device.drain", "device.quarantine")
_OTHERS = {
    "run.start": "stop it on its page",
    "campaign.start": "stop it on its page",
    "adapt.start": "stop it on its page",
    "campaign.stop": "a stop stays",
    "adapt.stop": "a stop stays",
    "run.import": "its page removes it",
    "run.remove": "import its file again",
    "run.export": "a download changes nothing",
    "rules.export": "a download changes nothing",
    "member.invite": "switch the account off",
    "token.issue": "revoke the token",
    "webhook.add": "remove the webhook",
    "webhook.on": "switch it off in Settings",
    "webhook.off": "switch it on in Settings",
    "device.drift": "done by the judge",
    "view.save": "delete it on its page",
    "view.rename": "rename it again on its page",
    "spend.alert": "it only says so",
    "spend.pause.undo": "an undo itself",
}


@dataclass(frozen=True)
class Standing:
    """`label` of the button that takes the act back, for who holds `role`; or `why_not`, in words."""

    label: str = ""
    why_not: str = ""
    role: Role = Role.OPERATOR


@dataclass(frozen=True)
class Facts:
    """What decides about acts on rules, clusters and the states of things, read once for a page."""

    undone: set[int] = field(default_factory=set)  # acts on rules and clusters
    newest: set[int] = field(default_factory=set)  # of each thing the last act on its state
    standing: Mapping[int, set[int]] = field(default_factory=dict)  # rule -> revisions that it stands at
    budget: Mapping[str, object] = field(default_factory=dict)  # the one that holds


def standings(actions: list[Action], subjects: Subjects) -> dict[int, Standing]:
    """Act -> how it stands, in a constant number of queries."""
    facts = _facts(actions, subjects)
    of_runs = [action for action in actions if action.object_type == "run"]
    known = [action for action in of_runs if int(action.object_id) in subjects.runs]
    found = {action.pk: Standing(why_not="the search is gone") for action in of_runs}
    for action, row in zip(known, run_acts(known, subjects.runs), strict=True):
        label = "Undo" if row.undo else row.inverse.label if row.inverse else ""
        ended = "the search has ended" if subjects.runs[int(action.object_id)].ended else ""
        found[action.pk] = Standing(label) if label else _no(action, row.standing or ended)
    for action in actions:
        if action.pk not in found:
            found[action.pk] = _one(action, subjects, facts)
    return {
        action.pk: replace(found[action.pk], role=_ROLES.get(action.object_type, Role.OPERATOR)) for action in actions
    }


_ROLES = {
    "rule": Role.REVIEWER,
    "rules": Role.REVIEWER,
    "cluster": Role.REVIEWER,
    "user": Role.ADMIN,
    "view": Role.VIEWER,
}


def _no(action: Action, why: str = "") -> Standing:
    """Why not: an undo, what the table says of the act, or what is known of this one."""
    if action.verb.endswith(".undo"):
        return Standing(why_not="an undo itself")
    return Standing(why_not=_OTHERS.get(action.verb) or why or _STAYS.get(action.verb) or "cannot be undone")


def _one(action: Action, subjects: Subjects, facts: Facts) -> Standing:
    match action.object_type:
        case "campaign" | "adapt":
            rows: Mapping[int, object] = subjects.campaigns if action.object_type == "campaign" else subjects.adapts
            return _flip(action, getattr(rows.get(int(action.object_id)), "state", ""), facts)
        case "device":
            return _device(action, subjects, facts)
        case "rule" | "rules":
            return _rule(action, subjects.rules, facts)
        case "cluster":
            return _cluster(action, subjects.clusters, facts)
        case "user":
            return _member(action, subjects.people)
        case "budget":
            return _budget(action, facts)
        case "view":
            return _view(action, subjects.views)
        case "price":
            return _price(action, subjects.prices)
    return _no(action)


def _flip(action: Action, state: str, facts: Facts) -> Standing:
    wanted, back = _FLIPS.get(action.verb, ("", ""))
    if not wanted:
        return _no(action)
    if action.pk not in facts.newest or state != wanted:
        return Standing(why_not="replaced" if state in ("running", "paused") else "it has ended")
    return Standing(back.capitalize())


def _device(action: Action, subjects: Subjects, facts: Facts) -> Standing:
    device = subjects.devices.get(int(action.object_id))
    if action.verb not in _DEVICE or device is None or action.before.get("state") == action.after.get("state"):
        return _no(action)
    if action.pk not in facts.newest or device.state != action.after.get("state"):
        return Standing(why_not="replaced")
    return Standing("Undo")


def _rule(action: Action, rules: Mapping[int, Rule], facts: Facts) -> Standing:
    if action.verb not in RULE_ACTS:
        return _no(action)
    if action.pk in facts.undone:
        return Standing(why_not="undone")
    if action.object_type == "rules":
        return Standing("Undo")
    if int(action.object_id) not in rules:
        return Standing(why_not="the rule is gone")
    stands = action.after.get("revision") in facts.standing.get(int(action.object_id), ())
    return Standing("Undo") if stands else Standing(why_not="changed since")


def _cluster(action: Action, rows: Mapping[int, FailureCluster], facts: Facts) -> Standing:
    row = rows.get(int(action.object_id))
    if action.verb not in clusters.UNDOABLE or row is None:
        return _no(action)
    if action.pk in facts.undone:
        return Standing(why_not="undone")
    if action.verb != clusters.PROPOSE and not clusters.holds(action, row):
        return Standing(why_not="changed since")
    return Standing("Undo")


def _budget(action: Action, facts: Facts) -> Standing:
    if action.verb == spend_budget.PAUSE:
        return Standing(why_not="undone") if action.pk in facts.undone else Standing("Resume what was paused")
    if action.verb != spend_budget.SET:
        return _no(action)
    return Standing("Undo") if facts.budget == action.after else Standing(why_not="changed since")


def _view(action: Action, views: Mapping[int, SavedView]) -> Standing:
    row = views.get(int(action.object_id))
    if action.verb not in (saved_views.DELETE, saved_views.RESTORE) or row is None:
        return _no(action)
    holds = (row.deleted_at is not None) == (action.verb == saved_views.DELETE)
    return Standing("Undo") if holds else Standing(why_not="changed since")


def _price(action: Action, prices: Mapping[int, ModelPrice]) -> Standing:
    row = prices.get(int(action.object_id))
    if row is None:
        return _no(action)
    holds = (row.withdrawn_at is not None) == (action.verb == spend_prices.WITHDRAW)
    return Standing("Undo") if holds else Standing(why_not="changed since")


def _member(action: Action, people: Mapping[int, User]) -> Standing:
    person = people.get(int(action.object_id))
    if person is None or action.verb not in ("member.roles", "member.off", "member.on"):
        return _no(action)
    now = {"roles": sorted(roles_held(person)), "active": person.is_active}
    same = all(now[name] == value for name, value in action.after.items())
    return Standing("Undo") if same else Standing(why_not="changed since")


def _facts(actions: list[Action], subjects: Subjects) -> Facts:
    """Four queries."""
    ids: dict[str, set[str]] = {}
    for action in actions:
        ids.setdefault(action.object_type, set()).add(action.object_id)
    undone, standing = set[int](), {pk: {rule.revision} for pk, rule in subjects.rules.items()}
    chains: dict[int, dict[int, int]] = {pk: {} for pk in subjects.rules}
    undos = Action.objects.filter(verb__in=(RULE_UNDO, clusters.UNDO)).order_by()
    for kind in ("rule", "rules", "cluster"):
        mine = undos.filter(object_type=kind, object_id__in=ids[kind]) if kind in ids else Action.objects.none()
        for pk, after in mine.values_list("object_id", "after"):
            undone |= {after.get("undoes"), after.get("of")}
            if kind == "rule" and "back_to" in after and int(pk) in chains:
                chains[int(pk)][after["revision"]] = after["back_to"]
    for rule_id, back in chains.items():
        last = subjects.rules[rule_id].revision
        while last in back:
            last = back[last]
            standing[rule_id].add(last)
    newest = set[int]()
    for kind, verbs in (("campaign", _FLIPS), ("adapt", _FLIPS), ("device", _DEVICE)):
        if kind in ids:
            acts = Action.objects.filter(object_type=kind, object_id__in=ids[kind], verb__in=list(verbs)).order_by()
            newest |= set(acts.values("object_id").annotate(last=Max("pk")).values_list("last", flat=True))
    budget: Mapping[str, object] = {}
    if "budget" in ids:
        budget = spend_budget.budget_fields(budget_now())
        mine = Action.objects.filter(object_type="budget", verb=spend_budget.PAUSE_UNDO).order_by()
        undone |= {after["undoes"] for after in mine.values_list("after", flat=True)}
    return Facts(undone=undone, newest=newest, standing=standing, budget=budget)
