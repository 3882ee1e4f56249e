"""Actions on a search as a form or a program asks for them, without a request; each gives its follow-up tasks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.db import transaction
from django.http import QueryDict
from django.utils.datastructures import MultiValueDict

from adaexplore_site.actions import registry
from adaexplore_site.actions.action import Call, Result
from adaexplore_site.actions.runner import errors_of
from adaexplore_site.core.audit import FieldsRefused, action_done
from search.rechecks.models import Recheck
from search.records import queue
from search.records.models import Node, Run
from search.records.queue import FollowUp
from search.steering.many import NodeFilter


def acted(name: str, target: Any, data: dict[str, Any], user: Any = None, key: str | None = None) -> Result | None:
    """Do an action whose form holds `data`; None where the key did it before. Raises ActionRefused."""
    action, typed = registry.action(name), QueryDict(mutable=True)
    for part, value in data.items():
        if value is not None:
            typed.setlist(part, [str(one) for one in value] if isinstance(value, list) else [str(value)])
    form = action.form(target, typed, MultiValueDict())
    if not form.is_valid():
        raise FieldsRefused(errors_of(form), form)
    with transaction.atomic():
        if action_done(key=key, verb=action.verb or action.name):
            return None
        return action.run(target, form.cleaned_data, Call(user, key))


def hops_of(result: Result | None) -> list[FollowUp]:
    """What the result of an action would send."""
    found: list[FollowUp] = []
    if result is not None and result.then is not None:
        sending, queue.send = queue.send, found.extend
        try:
            result.then()
        finally:
            queue.send = sending
    return found


def _action(name: str) -> Callable[..., list[FollowUp]]:
    def do(*, run: Run, user: Any = None, key: str | None = None, **data: Any) -> list[FollowUp]:
        return hops_of(acted(name, run, data, user, key))

    return do


steer_pin, steer_prune, steer_restore = _action("steer.pin"), _action("steer.prune"), _action("steer.restore")
steer_boost, steer_force, steer_note = _action("steer.boost"), _action("steer.force"), _action("steer.note")
steer_inject, steer_undo = _action("steer.inject"), _action("steer.undo")
run_concurrency = _action("run.concurrency")


def steer_params(*, run: Run, changes: dict[str, Any], user: Any = None, key: str | None = None) -> list[FollowUp]:
    """Change these parameters, whatever the others are."""
    return hops_of(acted("steer.params", run, changes, user, key))


def steer_bulk(
    *, run: Run, act: str, chosen: NodeFilter, expected: int, user: Any = None, **more: Any
) -> list[FollowUp]:
    """Do one action to every node of a filter; the number is typed, too."""
    fields: dict[str, Any] = {name: value for name, value in chosen.fields if name != "state"}
    fields |= {"state": list(chosen.states), "told": chosen.told, "act": act}
    key = more.pop("key", None)
    return hops_of(acted("steer.bulk", run, {**fields, "expected": expected, "typed": expected, **more}, user, key))


def run_budget_add(*, run: Run, delta: dict[str, Any], user: Any = None, key: str | None = None) -> Run:
    """Add to limits; the search as it is then."""
    acted("run.budget", run, delta, user, key)
    return Run.objects.get(pk=run.pk)


def run_budget_take(*, run: Run, action_id: int, user: Any = None, key: str | None = None) -> list[FollowUp]:
    """Take an addition back."""
    return hops_of(acted("run.budget.undo", run, {"action": action_id}, user, key))


def run_branch(*, node: Node, user: Any = None, key: str | None = None, **data: Any) -> tuple[Run, list[FollowUp]]:
    """Branch a search; it and what goes on with it. The same key gives the first branch again."""
    device = data.pop("device", None)
    result = acted("run.branch", node, {**data, "device": device and device.name}, user, key)
    if result is None:
        entry = action_done(key=key, verb="run.branch")
        assert entry is not None
        return Run.objects.get(pk=entry.after["run"]), []
    return Run.objects.get(pk=int(result.location.strip("/").split("/")[1])), hops_of(result)


def kernel_mark(*, node: Node, verb: str, user: Any = None, reason: str = "", key: str | None = None) -> None:
    """Put a mark on a node's kernel, or take one away."""
    acted(verb, node, {"reason": reason}, user, key)


def recheck_ask(
    *, node: Node, kind: Recheck.Kind, user: Any = None, rival: Node | None = None, note: str = "", **more: Any
) -> list[FollowUp]:
    """Have a kernel judged anew."""
    data = {"reason": note, "rival": rival and f"{rival.run_id}.{rival.number}"}
    return hops_of(acted(f"kernel.{kind.value}", node, data, user, more.get("key")))


def run_archive(*, run: Run, archived: bool, user: Any = None, key: str | None = None) -> None:
    """Take an ended search out of the lists, or back."""
    acted("run.archive" if archived else "run.unarchive", run, {}, user, key)


def run_remove(*, run: Run, user: Any = None, key: str | None = None) -> None:
    """Remove an imported search."""
    acted("run.remove", run, {}, user, key)
