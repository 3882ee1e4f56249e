"""The forms that steer a whole search as rows of fields: what stands in each, and what was wrong with it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from search.algorithm.params import POLICY_NAMES, REWARD_NAMES
from search.budget.limits import ADDABLE
from search.models import Run
from search.services.budgets import adapt_sharing
from search.spending import limits_of
from search.steering_force import params_in_force

ADDED = {
    "steps": "steps",
    "evaluations": "evaluations",
    "device_s": "device seconds",
    "tokens": "tokens",
    "usd": "US dollars",
    "wall_s": "wall-clock seconds",
    "stale_steps": "steps without a new best",
}
CHOICES = {"policy": POLICY_NAMES, "reward": REWARD_NAMES}


@dataclass(frozen=True)
class SteerField:
    """One field. `was` is in force now; `value` stands in it: what was typed where that was refused."""

    name: str
    label: str
    value: str
    was: str = ""
    choices: tuple[str, ...] = ()
    error: str = ""


def param_fields(
    run: Run, typed: Mapping[str, str] | None = None, errors: Mapping[str, str] | None = None
) -> list[SteerField]:
    """The parameters in force. A typed one that differs from what its form had shown stays."""
    given, wrong = typed or {}, errors or {}
    fields = []
    for name, now in params_in_force(run).to_json().items():
        changed = name in given and given[name] != given.get(f"was-{name}", "")
        value = given[name] if changed else str(now)
        fields.append(SteerField(name, name, value, str(now), CHOICES.get(name, ()), wrong.get(name, "")))
    return fields


def limit_fields(
    run: Run, typed: Mapping[str, str] | None = None, errors: Mapping[str, str] | None = None
) -> list[SteerField]:
    """The limits that can be added to, empty but for what was typed."""
    given, wrong = typed or {}, errors or {}
    return [SteerField(name, words, given.get(name, ""), error=wrong.get(name, "")) for name, words in addable(run)]


def concurrency_field(
    run: Run, typed: Mapping[str, str] | None = None, errors: Mapping[str, str] | None = None
) -> SteerField:
    """How many steps are in flight at once."""
    value = (typed or {}).get("concurrency", str(run.concurrency))
    return SteerField("concurrency", "steps in flight", value, error=(errors or {}).get("concurrency", ""))


def addable(run: Run) -> list[tuple[str, str]]:
    """(name, words) of the limits that can be added to now, none where a campaign or an adapt run shares them out."""
    if run.origin == Run.Origin.IMPORT or run.state not in (Run.State.RUNNING, Run.State.PAUSED, Run.State.FINISHED):
        return []
    if hasattr(run, "campaign_entry") or (run.origin == Run.Origin.ADAPT and adapt_sharing(run)):
        return []
    limits = limits_of(run)
    return [(name, ADDED[name]) for name in ADDABLE if getattr(limits, name) is not None]
