"""What another policy, or other parameters, would do on a run as it is, or as it was before one of its steps."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

from django.utils.translation import gettext as _

from adaexplore_site.core.audit import ActionRefused
from search.algorithm.counterfactual import Counterfactual, counterfactual
from search.algorithm.decide import node_rng
from search.algorithm.params import SearchParams
from search.algorithm.steering import Steering
from search.algorithm.tree import Tree
from search.records.facts import node_rows, tree_of
from search.records.log import steering_of
from search.records.models import Node, Run
from search.replay.check import LogBroken, rebuilt_before


@dataclass(frozen=True)
class WhatIf:
    """Decision `number` of a run made with `params`. `taken` is the node that was reserved there, None when the
    decision is still to come; `same` says whether that one had the same parent and kind."""

    number: int
    params: SearchParams
    found: Counterfactual
    taken: Node | None

    @property
    def same(self) -> bool | None:
        if self.taken is None:
            return None
        decision, parent = self.found.decision, self.taken.parent
        return (decision.parent, decision.kind) == (parent.number if parent else None, self.taken.kind)


def what_if(run: Run, changes: Mapping[str, str], at: int | None = None) -> WhatIf:
    """Decide the next step, or step `at` as it stood then, with the parameters in force there and `changes` to them.

    Raises ActionRefused for parameters that do not exist or an `at` that was no decision of this run.
    """
    tree_with, steering, params, number = _moment(run, at)
    try:
        wanted = SearchParams.from_texts([f"{name}={text}" for name, text in changes.items()], params.to_json())
    except ValueError as error:
        raise ActionRefused(str(error)) from error
    found = counterfactual(tree_with(wanted), wanted, node_rng(run.seed, number), steering)
    taken = None if at is None else Node.objects.select_related("parent").get(run=run, number=at)
    return WhatIf(number, wanted, found, taken)


def _moment(run: Run, at: int | None) -> tuple[Callable[[SearchParams], Tree], Steering, SearchParams, int]:
    if at is None:
        rows, steering = node_rows(run.pk), steering_of(run.pk)
        params = steering.params(SearchParams.of_run(run.params))
        return partial(tree_of, rows), steering, params, len(rows)
    try:
        state = rebuilt_before(run, at)
    except LogBroken as error:
        raise ActionRefused(
            _("The log of this search is damaged before step %(at)s: %(error)s.") % {"at": at, "error": error}
        ) from error
    if state is None:
        raise ActionRefused(
            _("Step %(at)s is not in the log of this search. Choose the number of one of its nodes.") % {"at": at}
        )
    return state.tree_with, state.steering, state.params, at


def what_if_document(run: Run, asked: WhatIf) -> dict[str, Any]:
    """As JSON values; `arms` are the scores compared, `chosen` the ones followed."""
    decision = asked.found.decision
    return {
        "run": run.pk,
        "step": asked.number,
        "params": asked.params.to_json(),
        "decision": {"parent": decision.parent, "kind": decision.kind, "context": list(decision.context)},
        "steered": decision.steered,
        "why": decision.why,
        "arms": [asdict(arm) for arm in asked.found.arms],
        "arms_hidden": asked.found.hidden,
        "taken": None
        if asked.taken is None
        else {
            "node": asked.taken.number,
            "parent": asked.taken.parent.number if asked.taken.parent else None,
            "kind": asked.taken.kind,
            "same": asked.same,
        },
    }
