"""Records of proposer calls."""

from __future__ import annotations

from collections.abc import Iterable

from adaexplore_site.core.text import storable_text
from search.engine.spending import calls_add
from search.proposers.protocol import Call
from search.records.models import Node, Proposal


def proposals_record(*, node: Node, proposer: str, calls: Iterable[Call]) -> None:
    """Append the calls to the node's record, in the caller's transaction with the run row locked."""
    first = Proposal.objects.filter(node=node).count() + 1
    numbered = list(enumerate(calls, start=first))
    calls_add(node=node, calls=numbered)
    Proposal.objects.bulk_create(
        Proposal(
            node=node,
            attempt=attempt,
            proposer=proposer,
            model=call.model[:120],
            template=call.template[:120],
            prompt=storable_text(call.prompt),
            reply=storable_text(call.reply),
            error=storable_text(call.error),
            tokens_in=call.tokens_in,
            tokens_out=call.tokens_out,
            price_usd=call.price_usd,
            latency_ms=call.latency_ms,
        )
        for attempt, call in numbered
    )
