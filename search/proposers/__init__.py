"""Where candidates come from. One protocol, `propose(task) -> Reply`; `get` names the implementations."""

from __future__ import annotations

import logging
import random
from dataclasses import dataclass
from decimal import Decimal
from typing import cast

from django.conf import settings
from django.utils import timezone
from django.utils.module_loading import import_string
from django.utils.translation import gettext as _

from search.proposers.protocol import Call, ContextKernel, Proposer, ProposerError, Reply, Task, WaitingForPerson

log = logging.getLogger(__name__)

__all__ = [
    "ATTENDED",
    "BY_HAND",
    "FREE",
    "NAMES",
    "PROPOSERS",
    "Call",
    "Choice",
    "ContextKernel",
    "Proposer",
    "ProposerError",
    "Reply",
    "Task",
    "Traits",
    "UnknownProposer",
    "WaitingForPerson",
    "available",
    "default_name",
    "get",
]


@dataclass(frozen=True)
class Traits:
    """What holds of a proposer whatever its configuration."""

    billed: bool = False  # its calls cost money
    by_hand: bool = False  # a person writes every kernel
    attended: bool = False  # needs a person at every step, or a recording for each problem


PROPOSERS = {
    "builtin": Traits(),
    "openai": Traits(billed=True),
    "manual": Traits(by_hand=True, attended=True),
    "recorded": Traits(attended=True),
}
NAMES = tuple(PROPOSERS)
FREE = tuple(name for name, traits in PROPOSERS.items() if not traits.billed)
BY_HAND = tuple(name for name, traits in PROPOSERS.items() if traits.by_hand)
ATTENDED = tuple(name for name, traits in PROPOSERS.items() if traits.attended)


class UnknownProposer(ValueError):
    """No proposer has this name; the message lists those there are."""


@dataclass(frozen=True)
class Choice:
    """One proposer as offered to a person: `why_not` says in a sentence what to do before it can be used."""

    name: str
    title: str
    detail: str
    why_not: str = ""

    @property
    def ready(self) -> bool:
        return not self.why_not


def get(name: str) -> Proposer:
    """The proposer of that name. Raises UnknownProposer. Run options (`model`, `replies`, ...) reach it with the task.

    An endpoint without settings is an error of the first `propose`, not of `get`: see `available`.
    """
    if name in settings.SEARCH_PROPOSERS:
        return cast(Proposer, import_string(settings.SEARCH_PROPOSERS[name])())
    if name == "builtin":
        from search.proposers.builtin import BuiltinProposer

        return BuiltinProposer()
    if name == "openai":
        from adaexplore_site.core.llm import ChatClient, endpoint_from_settings
        from search.proposers.external import OpenAIProposer

        return OpenAIProposer(ChatClient(endpoint_from_settings(), rng=random.Random()), price=_usd_today)
    if name == "manual":
        from search.proposers.external import ManualProposer

        return ManualProposer()
    if name == "recorded":
        from search.proposers.external import RecordedProposer

        return RecordedProposer()
    refusal = _("There is no proposer %(name)r. Choose one of: %(known)s.")
    raise UnknownProposer(refusal % {"name": name, "known": ", ".join(NAMES)})


def _usd_today(model: str, tokens_in: int, tokens_out: int) -> Decimal | None:
    """What a call costs by today's prices; None for a model without one, or while the price file is broken."""
    from search.ledger.prices import BadPrices, price_of

    try:
        price = price_of(model=model, on=timezone.now().date())
    except BadPrices as error:  # the reply is paid for: it must not be lost over its price
        log.warning("a call stays unpriced: %s", error)
        return None
    return price.usd(tokens_in, tokens_out) if price else None


def available() -> tuple[Choice, ...]:
    """Every proposer, with the reason why it cannot be used now, if so. Reads configuration only."""
    from adaexplore_site.core.llm import endpoint_from_settings

    endpoint = endpoint_from_settings()
    return (
        Choice("builtin", _("Built-in"), _("Writes Triton itself from the problem's traced graph. Needs no key.")),
        Choice(
            "openai",
            _("Model %(name)s") % {"name": endpoint.model} if endpoint.model else _("Language model"),
            _("Asks any OpenAI-compatible chat endpoint.")
            if endpoint.missing()
            else _("Asks %(address)s.") % {"address": endpoint.shown},
            endpoint.missing(),
        ),
        Choice("manual", _("By hand"), _("Shows each prompt on the page and waits for a pasted reply.")),
        Choice(
            "recorded",
            _("Recorded"),
            _("Replays the kernels of an earlier run."),
            _("Needs a recording: start it from a run that has ended."),
        ),
    )


def default_name() -> str:
    """`openai` when it is configured, else `builtin`."""
    from adaexplore_site.core.llm import endpoint_from_settings

    return "builtin" if endpoint_from_settings().missing() else "openai"
