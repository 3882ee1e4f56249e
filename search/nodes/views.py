"""One node: verdict, numbers, cases, kernels, source, difference, the exchange with its proposer."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from typing import Any

from django.http import HttpResponse
from django.shortcuts import get_object_or_404, render
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe
from django.views.decorators.vary import vary_on_headers
from django_htmx.http import replace_url

from adaexplore_site.core.requests import SiteRequest, current_path
from judge.devices.services import search_devices
from judge.evaluations import facts as evaluation_facts
from judge.evaluations.samples import measurements
from judge.sources.highlighting import listing, visible
from judge.values import Verdict
from search.algorithm.params import POLICY_NAMES
from search.compare.columns import calls_summed
from search.compare.table import cost_text, tokens_text
from search.nodes import page as diff_page
from search.nodes import page as node_page
from search.rechecks.queries import rechecks_of
from search.records.facts import NodeRow
from search.records.log import node_steering, steering_of
from search.records.models import Node, Run
from search.records.node_styles import LABELS
from search.records.queries import RunTree, run_tree

TABS = (
    ("overview", _("Overview")),
    ("source", _("Source")),
    ("diff", _("Diff")),
    ("exchange", _("Prompt and reply")),
    ("log", _("Log")),
)


@never_cache
@vary_on_headers("HX-Request")
@require_safe
def node_detail(request: SiteRequest, run_id: int, number: int) -> HttpResponse:
    """The node's page, or its panel for the drawer. Query: `tab`, and of the difference `base`, `view`,
    `ws`, `open` and `large` (search.nodes.page)."""
    response = node_response(request, node_load(run_id, number))
    own = reverse("node-detail", args=[run_id, number])
    on_own_page = request.htmx and current_path(request).split("?")[0] == own
    if on_own_page and not request.htmx.history_restore_request:
        replace_url(response, request.get_full_path())
    return response


def node_load(run_id: int, number: int) -> Node:
    """The node of these numbers with its run, or 404."""
    rows = Node.objects.select_related("run__problem", "run__device", "evaluation__device", "parent")
    return get_object_or_404(rows, run=run_id, number=number)


def node_response(request: SiteRequest, node: Node, *, status: int = 200, **more: Any) -> HttpResponse:
    """The node's page, for scripts its panel; `more` goes into the template."""
    run = node.run
    tab = request.GET.get("tab", "overview")
    tab = tab if tab in dict(TABS) else "overview"
    tree = run_tree(run)
    row = tree.nodes[node.number]
    context = {
        "run": run,
        "node": node,
        "row": row,
        "style": node_page.node_style(row, run, tree.best),
        "label": _label(node, row),
        "evaluation": node.evaluation,
        "tab": tab,
        "tabs": TABS,
        "is_best": tree.best == node.number,
        "is_closest": tree.standing.closest == node.number,
        "best": tree.best,
        "leader": tree.leader,
        "parent": node_page.link(tree, run, row.parent) if row.parent is not None else None,
        "best_child": node_page.best_child(tree, run, node.number),
        "waiting": node_page.waits_for_person(node),
        "age_s": (timezone.now() - node.created_at).total_seconds() if node.state in Node.IN_FLIGHT else None,
        "key": secrets.token_urlsafe(16),
        **steering_context(run, node, tree),
        **_BODIES[tab](request, run, node, tree),
        **more,
    }
    template = "nodes/node_detail.html#panel" if request.htmx else "nodes/node_detail.html"
    return render(request, template, context, status=status)


def node_panel(
    request: SiteRequest,
    run_id: int,
    number: str,
    *,
    done: str = "",
    refused: str = "",
    typed: Mapping[str, str] | None = None,
    status: int = 200,
    **more: Any,
) -> HttpResponse | None:
    """The panel that a form names by the number of its node, with what came of the form; None where it names none.

    The panel ignores other facts of the action. The action may be done by then, so that a number of
    no node is no error.
    """
    known = number.isascii() and number.isdigit() and len(number) < 9
    if not known or not Node.objects.filter(run=run_id, number=int(number)).exists():
        return None
    node = node_load(run_id, int(number))
    return node_response(request, node, status=status, steer_done=done, steer_refused=refused, typed=typed or {})


def _label(node: Node, row: NodeRow) -> str:
    """The verdict, else the state, as text."""
    if node.kind == Node.Kind.ROOT:
        return gettext("start: the empty candidate")
    if node_page.waits_for_person(node):
        return gettext("waiting for a manual reply")
    if node.state != Node.State.COMPLETED:
        return gettext("cancelled") if node.state == Node.State.CANCELLED else str(LABELS[node.state])
    if row.doubt:
        verdict = row.verdict.replace("_", " ")
        return gettext("%(doubt)s; its verdict was %(verdict)s") % {"doubt": row.doubt, "verdict": verdict}
    if row.verdict == Verdict.PASS:
        slower = row.speedup is not None and row.speedup < 1
        return gettext("correct, slower than eager") if slower else gettext("correct")
    return row.verdict.replace("_", " ") or gettext("no candidate")


def _overview(request: SiteRequest, run: Run, node: Node, tree: RunTree) -> dict[str, Any]:
    found = node.evaluation
    above = node_page.path_up(tree, node.number)[:0:-1]
    below = [one.number for one in tree.nodes if one.parent == node.number][: node_page.ROWS]
    calls = calls_summed(node.proposals.all())
    context: dict[str, Any] = {"message": visible(node.message[: evaluation_facts.MESSAGE_CHARS])}
    if found is not None:
        rows = measurements(found, samples=False)
        context = evaluation_facts.evaluation_context(found, rows)
    return context | {
        "reason": context.get("reason") or node.reason,
        "context_nodes": node_page.links(tree, run, (number for number in node.context if isinstance(number, int))),
        "lineage": node_page.links(tree, run, above),
        "children": node_page.links(tree, run, below),
        "tokens": tokens_text(run, calls),
        "cost": cost_text(run, calls),
        "near": node_page.near_of(node),
        "prompt_rules": node_page.prompt_rules(node),
    }


def _source(request: SiteRequest, run: Run, node: Node, tree: RunTree) -> dict[str, Any]:
    return {"code": listing(node.source)}


def _diff(request: SiteRequest, run: Run, node: Node, tree: RunTree) -> dict[str, Any]:
    query = {name: str(value)[:2_000] for name, value in request.GET.items()}
    memory = request.session.get("diff", {})
    remembered = diff_page.remembered(query, memory)
    if remembered != memory:
        request.session["diff"] = remembered
    return {"comparison": diff_page.comparison(run, tree, node, query, memory)}


def _exchange(request: SiteRequest, run: Run, node: Node, tree: RunTree) -> dict[str, Any]:
    return {"exchanges": node_page.exchanges(node)}


def _log(request: SiteRequest, run: Run, node: Node, tree: RunTree) -> dict[str, Any]:
    return {"log": evaluation_facts.log_of(node.evaluation)}


def steering_context(run: Run, node: Node, tree: RunTree) -> dict[str, Any]:
    """What people did to the node, and what they can do."""
    hands = node_steering(steering_of(run.pk), node.number, node_page.path_up(tree, node.number))
    return {
        "hands": hands,
        "steerable": not run.ended and run.state != Run.State.STOPPING and node.state != Node.State.CANCELLED,
        "branchable": node.state == Node.State.COMPLETED and bool(node.source),
        "branches": list(node.branches.order_by("pk")[: node_page.ROWS]),
        "devices": list(search_devices()) if run.origin == Run.Origin.IMPORT else [],
        "rejudgeable": _rejudgeable(node),
        "rechecks": rechecks_of(node),
        "typed": {},
        "policies": POLICY_NAMES,
    }


def _rejudgeable(node: Node) -> bool:
    """Whether a worker of ours can judge its kernel once more."""
    evaluation = node.evaluation
    if evaluation is None or evaluation.elsewhere:
        return False
    return evaluation.device.served


_BODIES: dict[str, Callable[[SiteRequest, Run, Node, RunTree], dict[str, Any]]] = {
    "overview": _overview,
    "source": _source,
    "diff": _diff,
    "exchange": _exchange,
    "log": _log,
}
