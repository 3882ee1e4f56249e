"""Whether a new run's limits make sense for its problem, device and proposer; each refusal says what to change."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from django.utils import timezone

from adaexplore_site.core.audit import ActionRefused, FieldsRefused
from judge.devices.models import Device
from judge.evaluations.services import evaluation_limits
from judge.problems.models import Problem
from search.ledger.limits import BadLimit, RunLimits
from search.ledger.prices import BadPrices, Price
from search.ledger.pricing import STEP_TOKENS_IN, STEP_TOKENS_OUT, price_of

BILLED = "openai"  # the one proposer that somebody bills for


def limits_checked(
    *,
    problem: Problem,
    device: Device,
    proposer: str,
    options: Mapping[str, Any],
    steps: int,
    limits: Mapping[str, Any],
) -> RunLimits:
    """The limits as a value, what a step holds filled in. Raises ActionRefused with what to change."""
    given = {name: value for name, value in limits.items() if value not in (None, "")}
    if not given:
        return RunLimits(steps=steps)
    check_use(proposer, given)
    given.setdefault("step_device_s", evaluation_limits(device).wall_s)
    tokens = step_tokens(options)
    given.setdefault("step_tokens", sum(tokens))
    if "usd" in given:
        price = price_for(options)
        given.setdefault("step_usd", str(max(price.usd(*tokens), Decimal("0.000001"))))
    if "roofline_share" in given:
        _check_bound(problem, device)
    try:
        return RunLimits.from_json(given, steps=steps)
    except BadLimit as error:
        raise FieldsRefused({error.name: str(error)}) from error


def check_use(proposer: str, given: Mapping[str, Any]) -> None:
    """Raise ActionRefused for a limit of what the proposer never uses."""
    if proposer != BILLED:
        if "usd" in given:
            raise FieldsRefused({"usd": f"The proposer {proposer!r} costs no money: leave the limit of money empty."})
        if "tokens" in given:
            raise FieldsRefused(
                {"tokens": f"The proposer {proposer!r} uses no tokens: leave the limit of tokens empty."}
            )


def step_tokens(options: Mapping[str, Any]) -> tuple[int, int]:
    """(in, out) of one step at most; a run that bounds its replies bounds both of its calls."""
    longest = options.get("max_completion_tokens") or options.get("max_tokens")
    return STEP_TOKENS_IN, 2 * int(longest) if longest else STEP_TOKENS_OUT


def price_for(options: Mapping[str, Any]) -> Price:
    """Today's price of the configured model. Raises ActionRefused where none is known."""
    model = str(options.get("model") or "")
    try:
        price = price_of(model=model, on=timezone.now().date())
    except BadPrices as error:
        raise ActionRefused(str(error)) from error
    if price is None:
        why = (
            f"No price is known for {model or 'the configured model'}, so a limit of money cannot be held. Leave it "
            "empty, or set a price on the page Spend or in the file that LLM_PRICES names."
        )
        raise FieldsRefused({"usd": why})
    return price


def _check_bound(problem: Problem, device: Device) -> None:
    report = problem.report_for(device.name) or {}
    if not (report.get("roofline") or {}).get("bound_us"):
        why = (
            f"The preflight of {problem.title} on {device.name} found no time bound, so there is no roofline to "
            "reach a share of. Leave that goal empty."
        )
        raise FieldsRefused({"roofline_share": why})
