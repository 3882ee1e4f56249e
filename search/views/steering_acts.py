"""What the fields of a steering form ask for: one row per act, with the sentence that says it was done."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from django.utils import timezone

from adaexplore_site.audit import ActionRefused, FieldsRefused
from search.algorithm.params import SearchParams
from search.budget.limits import ADDABLE
from search.services.budget_undo import run_budget_take
from search.services.budgets import run_budget_add
from search.services.hops import Hop
from search.services.injecting import steer_inject
from search.services.runs import run_concurrency
from search.services.steering import steer_boost, steer_force, steer_note, steer_pin, steer_prune, steer_restore
from search.services.steering_run import advance, steer_params, steer_undo
from search.spending import limits_of
from search.steering_force import params_in_force

Fields = Mapping[str, str]

Act = Callable[[Fields, dict[str, Any]], list[Hop]]


def chosen(name: str) -> tuple[str, Act]:
    """The sentence and the act behind a name. Raises ActionRefused for an unknown one."""
    found = ACTS.get(name)
    if found is None:
        raise ActionRefused(f"There is no act {name!r}. Reload the page and try again.")
    return found


def whole(text: str, name: str) -> int:
    """A whole number out of a field. Raises ActionRefused with the field's name."""
    if not text.isascii() or not text.removeprefix("-").isdigit() or len(text) > 12:
        raise ActionRefused(f"Enter a whole number for {name}, not {text[:40]!r}.")
    return int(text)


def number_in(text: str, name: str) -> float:
    """A number out of a field. Raises ActionRefused with the field's name."""
    try:
        return float(text)
    except ValueError:
        raise ActionRefused(f"Enter a number for {name}, not {text[:40]!r}.") from None


def _node(fields: Fields) -> int:
    return whole(fields.get("number", ""), "node")


def _force(fields: Fields, act: dict[str, Any]) -> list[Hop]:
    number = _node(fields) if fields.get("number") else None
    return steer_force(**act, kind=fields.get("kind", ""), number=number)


def _inject(fields: Fields, act: dict[str, Any]) -> list[Hop]:
    number = _node(fields) if fields.get("number") else 0
    return steer_inject(**act, number=number, kind=fields.get("kind", "large"), source=fields.get("source", ""))


def _params(fields: Fields, act: dict[str, Any]) -> list[Hop]:
    """Only what differs from what the form showed: somebody else may have changed the rest meanwhile."""
    names = [name for name in SearchParams().to_json() if fields.get(name, "") != fields.get(f"was-{name}", "")]
    now, wanted, wrong = params_in_force(act["run"]).to_json(), {}, {}
    for name in names:
        try:
            wanted[name] = SearchParams.from_texts([f"{name}={fields.get(name, '').strip()}"], now).to_json()[name]
        except ValueError as error:
            wrong[name] = str(error)
    if wrong:
        raise FieldsRefused(wrong)
    return steer_params(**act, changes=wanted)


def _limits(fields: Fields, act: dict[str, Any]) -> list[Hop]:
    """What is added to each limit; a finished search goes on with it."""
    delta = {name: text for name in ADDABLE if (text := fields.get(name, "").strip())}
    limits, wrong = limits_of(act["run"]), {}
    for name, text in delta.items():
        try:
            limits.extended({name: text})
        except ValueError as error:
            wrong[name] = str(error)
    if wrong:
        raise FieldsRefused(wrong)
    return advance(run_budget_add(**act, delta=delta, now=timezone.now()))


def _limits_undo(fields: Fields, act: dict[str, Any]) -> list[Hop]:
    return run_budget_take(**act, action_id=whole(fields.get("action", ""), "act"), now=timezone.now())


def _concurrency(fields: Fields, act: dict[str, Any]) -> list[Hop]:
    name = "concurrency"
    try:
        return advance(run_concurrency(**act, concurrency=whole(fields.get(name, ""), "steps in flight")))
    except ActionRefused as error:
        raise FieldsRefused({name: str(error)}) from error


def _pin(fields: Fields, act: dict[str, Any]) -> list[Hop]:
    return steer_pin(**act, number=_node(fields), quota=whole(fields.get("quota", ""), "selections"))


def _boost(fields: Fields, act: dict[str, Any]) -> list[Hop]:
    return steer_boost(**act, number=_node(fields), boost=number_in(fields.get("boost", ""), "boost"))


ACTS: Mapping[str, tuple[str, Act]] = {
    "pin": ("Pinned.", _pin),
    "prune": ("Pruned. Steps in flight below it end.", lambda f, act: steer_prune(**act, number=_node(f))),
    "restore": ("Restored.", lambda f, act: steer_restore(**act, number=_node(f))),
    "boost": ("Boost set.", _boost),
    "force": ("The next possible step will be of that kind.", _force),
    "note": ("Note added.", lambda f, act: steer_note(**act, number=_node(f), text=f.get("text", ""))),
    "params": ("Parameters changed from the next decision on.", _params),
    "limits": ("Budget added.", _limits),
    "limits-undo": ("Added budget taken back.", _limits_undo),
    "concurrency": ("Steps in flight changed.", _concurrency),
    "inject": ("The kernel is on its way to the judge.", _inject),
    "undo": ("Undone.", lambda f, act: steer_undo(**act, seq=whole(f.get("seq", ""), "act"))),
}
