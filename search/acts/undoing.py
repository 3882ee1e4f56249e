"""Takes an act back, whatever it was done to, by the service of its own room."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.contrib.auth.models import User
from django.utils import timezone

from adaexplore_site.access import require
from adaexplore_site.audit import ActionRefused
from adaexplore_site.members import member_access, member_roles
from adaexplore_site.models import Action
from judge.models import Device
from memory.models import AdaptRun
from memory.services.clusters import cluster_undo
from memory.services.rules_undo import rule_undo
from search.acts.said import Subjects
from search.acts.standing import standings
from search.models import Campaign, ModelPrice, Node, Run, SavedView
from search.services import adapt_runs, campaigns, spend_budget, spend_prices
from search.services.archiving import run_archive
from search.services.budget_undo import run_budget_take
from search.services.devices import device_state_set
from search.services.hops import Hop
from search.services.marking import VERBS as MARKING
from search.services.marking import kernel_unmark
from search.services.runs import run_concurrency, run_pause, run_resume, run_stop
from search.services.saved_views import DELETE, view_delete
from search.services.steering_run import advance, steer_undo


def action_undo(*, action: Action, user: User, key: str | None = None) -> list[Hop]:
    """Take `action` back; what the caller then sends. The same key again does nothing.

    Raises ActionRefused with why it cannot be, PermissionDenied where the act belongs to another role.
    """
    standing = standings([action], Subjects.of([action]))[action.pk]
    require(user, standing.role)
    if key and Action.objects.filter(key=key).exists():
        return []
    if not standing.label:
        raise ActionRefused(f"This act is not undone: {standing.why_not}.")
    who = {"user": user, "key": key}
    return _UNDO[action.object_type](action, who)


Who = dict[str, Any]


def _run(action: Action, who: Who) -> list[Hop]:
    run = Run.objects.get(pk=action.object_id)
    match action.verb:
        case "run.pause" | "run.stop" | "run.kill":
            return advance(run_resume(run=run, **who))
        case "run.resume":
            run_pause(run=run, **who)
            return []
        case "run.archive" | "run.unarchive":
            run_archive(run=run, archived=action.verb == "run.unarchive", **who)
            return []
        case "run.concurrency":
            return advance(run_concurrency(run=run, concurrency=action.after["before"], **who))
        case "run.budget":
            return run_budget_take(run=run, action_id=action.pk, now=timezone.now(), **who)
        case verb if verb in MARKING:
            node = Node.objects.get(run=run, number=action.after["number"])
            kernel_unmark(node=node, verb=verb, before=action.before, **who)
            return []
        case "run.branch":
            run_stop(run=Run.objects.get(pk=action.after["run"]), **who)
            return []
    return steer_undo(run=run, seq=action.after["seq"], **who)


def _campaign(action: Action, who: Who) -> list[Hop]:
    campaign = Campaign.objects.get(pk=action.object_id)
    if action.verb == "campaign.resume":
        campaigns.campaign_pause(campaign=campaign, **who)
        return []
    return campaigns.campaign_hops(campaigns.campaign_resume(campaign=campaign, **who))


def _adapt(action: Action, who: Who) -> list[Hop]:
    adapt = AdaptRun.objects.get(pk=action.object_id)
    if action.verb == "adapt.resume":
        adapt_runs.adapt_pause(adapt=adapt, **who)
        return []
    return adapt_runs.adapt_hops(adapt_runs.adapt_resume(adapt=adapt, **who))


def _device(action: Action, who: Who) -> list[Hop]:
    device = Device.objects.get(pk=action.object_id)
    device_state_set(device=device, state=Device.State(action.before["state"]), **who)
    return []


def _rule(action: Action, who: Who) -> list[Hop]:
    rule_undo(action_id=action.pk, **who)
    return []


def _cluster(action: Action, who: Who) -> list[Hop]:
    cluster_undo(action=action, **who)
    return []


def _budget(action: Action, who: Who) -> list[Hop]:
    if action.verb == spend_budget.PAUSE:
        return spend_budget.budget_pause_undo(action=action, **who)
    spend_budget.budget_undo(before=action.before, **who)
    return []


def _price(action: Action, who: Who) -> list[Hop]:
    price = ModelPrice.objects.get(pk=action.object_id)
    spend_prices.price_withdraw(price=price, withdrawn=action.verb != spend_prices.WITHDRAW, **who)
    return []


def _view(action: Action, who: Who) -> list[Hop]:
    view = SavedView.objects.get(pk=action.object_id)
    view_delete(view=view, deleted=action.verb != DELETE, **who)
    return []


def _member(action: Action, who: Who) -> list[Hop]:
    member = User.objects.get(pk=action.object_id)
    if action.verb == "member.roles":
        member_roles(member=member, roles=action.before["roles"], **who)
    else:
        member_access(member=member, active=action.before["active"], **who)
    return []


_UNDO: dict[str, Callable[[Action, Who], list[Hop]]] = {
    "run": _run,
    "campaign": _campaign,
    "adapt": _adapt,
    "device": _device,
    "rule": _rule,
    "rules": _rule,
    "cluster": _cluster,
    "user": _member,
    "budget": _budget,
    "price": _price,
    "view": _view,
}
