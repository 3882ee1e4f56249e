"""One node: verdict, numbers, cases, kernels, source, difference, the exchange with its proposer; the reply by hand."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from typing import Any

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_POST, require_safe
from django.views.decorators.vary import vary_on_headers
from django_htmx.http import replace_url

from adaexplore_site.access import Role, role_required
from adaexplore_site.audit import ActionRefused
from adaexplore_site.requests import SiteRequest, form_key
from judge import evaluation_facts, evaluation_samples
from judge.highlighting import listing, visible
from judge.selectors import judging_devices
from judge.trust import doubt_about
from judge.values import Verdict
from search import diff_page, node_page
from search.algorithm.params import POLICY_NAMES
from search.compare.columns import calls_summed
from search.compare.table import cost_text, tokens_text
from search.models import Node, Run
from search.near import near_of
from search.rechecked import rechecks_of
from search.rules_panel import prompt_rules
from search.selectors import RunTree, TreeNode, run_tree
from search.services.steps import reply_submit
from search.steering_force import hands_on
from search.steering_log import steering_of
from search.tasks import send

REPLY_CHARS = 1 << 20
TABS = (
    ("overview", "Overview"),
    ("source", "Source"),
    ("diff", "Diff"),
    ("exchange", "Prompt and reply"),
    ("log", "Log"),
)


@never_cache
@vary_on_headers("HX-Request")
@require_safe
def node_detail(request: SiteRequest, run_id: int, number: int) -> HttpResponse:
    """The node's page, or its panel for the drawer. Query: `tab`, and of the difference `base`, `view`,
    `ws`, `open` and `large` (search.diff_page)."""
    run, node = node_load(run_id, number)
    response = node_response(request, run, node)
    own = reverse("node-detail", args=[run.pk, node.number])
    if request.htmx and request.htmx.current_url_abs_path is not None:
        on_own_page = request.htmx.current_url_abs_path.split("?")[0] == own
        if on_own_page and not request.htmx.history_restore_request:
            replace_url(response, request.get_full_path())
    return response


def node_load(run_id: int, number: int) -> tuple[Run, Node]:
    """The run and the node of these numbers, or 404."""
    run = get_object_or_404(Run.objects.select_related("problem", "device"), pk=run_id)
    node = get_object_or_404(Node.objects.select_related("evaluation__device", "parent"), run=run, number=number)
    return run, node


def node_response(request: SiteRequest, run: Run, node: Node, *, status: int = 200, **more: Any) -> HttpResponse:
    """The node's page, for scripts its panel; `more` goes into the template."""
    tab = request.GET.get("tab", "overview")
    tab = tab if tab in dict(TABS) else "overview"
    tree = run_tree(run)
    row = tree.nodes[node.number]
    context = {
        "run": run,
        "node": node,
        "row": row,
        "look": node_page.node_look(row, run, tree.best),
        "word": _word(node, row),
        "evaluation": node.evaluation,
        "message": visible((node.evaluation.message if node.evaluation else node.message)[:20_000]),
        "reason": (node.evaluation.reason if node.evaluation else "") or node.reason,
        "tab": tab,
        "tabs": TABS,
        "is_best": tree.best == node.number,
        "best": tree.best,
        "parent": node_page.link(tree, run, row.parent) if row.parent is not None else None,
        "best_child": node_page.best_child(tree, run, node.number),
        "waiting": node_page.waits_for_person(node),
        "age_s": node_page.age_s(node, now=timezone.now()),
        "key": secrets.token_urlsafe(16),
        **steering_context(run, node, tree),
        **_BODIES[tab](request, run, node, tree),
        **more,
    }
    template = "search/node_detail.html#panel" if request.htmx else "search/node_detail.html"
    return render(request, template, context, status=status)


def _word(node: Node, row: TreeNode) -> str:
    """The verdict, else the state, in words."""
    if node.kind == Node.Kind.ROOT:
        return "start: the empty candidate"
    if node_page.waits_for_person(node):
        return "waiting for a reply by hand"
    if node.state != Node.State.TOLD:
        return str(node.state)
    if row.doubt:
        return f"{row.doubt}; its verdict was {row.verdict.replace('_', ' ')}"
    if row.verdict == Verdict.PASS:
        return "correct, slower than eager" if row.speedup is not None and row.speedup < 1 else "correct"
    return row.verdict.replace("_", " ") or "no candidate"


def _overview(request: SiteRequest, run: Run, node: Node, tree: RunTree) -> dict[str, Any]:
    report = node.evaluation.report if node.evaluation else {}
    links = [node_page.link(tree, run, number) for number in node.context if isinstance(number, int)]
    cases = report.get("cases", ())
    calls = calls_summed(list(node.proposals.defer("prompt", "reply", "error")))
    return {
        "timings": evaluation_samples.timings(evaluation_samples.slim_measurements(node.evaluation)),
        "doubt": doubt_about(node.evaluation, now=timezone.now()),
        "over_compile": evaluation_facts.over_compile(node.evaluation),
        "cases": cases[: node_page.ROWS],
        "cases_hidden": max(0, len(cases) - node_page.ROWS),
        "stages": report.get("stages", ())[: node_page.ROWS],
        "kernels": evaluation_facts.kernels(node.evaluation),
        "context_nodes": [item for item in links if item is not None],
        "lineage": node_page.lineage(tree, run, node.number),
        "children": node_page.children(tree, run, node.number)[: node_page.ROWS],
        "environment": report.get("environment", {}),
        "tokens": tokens_text(run, calls),
        "cost": cost_text(run, calls),
        "findings": evaluation_facts.findings(node.evaluation) if node.evaluation else [],
        "near": near_of(node),
        "prompt_rules": prompt_rules(node),
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
    hands = hands_on(steering_of(run.pk), node.number, node_page.path_up(tree, node.number))
    return {
        "hands": hands,
        "steerable": not run.ended and run.state != Run.State.STOPPING and node.state != Node.State.CANCELLED,
        "branchable": node.state == Node.State.TOLD and bool(node.source),
        "branches": list(node.branches.order_by("pk")[: node_page.ROWS]),
        "devices": list(judging_devices()) if run.origin == Run.Origin.IMPORT else [],
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
    return evaluation.device.judges and not evaluation.device.remote


_BODIES: dict[str, Callable[[SiteRequest, Run, Node, RunTree], dict[str, Any]]] = {
    "overview": _overview,
    "source": _source,
    "diff": _diff,
    "exchange": _exchange,
    "log": _log,
}


@role_required(Role.OPERATOR)
@require_POST
def node_reply(request: SiteRequest, run_id: int, number: int) -> HttpResponse:
    """Take a reply written by hand. What cannot be used is 409 with what is expected; the text stays in the form."""
    run, node = node_load(run_id, number)
    text = request.POST.get("text", "")
    key = form_key(request)
    try:
        if len(text) > REPLY_CHARS:
            raise ActionRefused(f"The reply has {len(text):,} characters; the limit is {REPLY_CHARS:,}.")
        send(reply_submit(node=node, text=text, user=request.user, key=key))
    except ActionRefused as error:
        return node_response(request, run, node, status=409, reply_error=str(error), reply_text=text)
    if request.htmx:
        return node_response(request, *node_load(run_id, number))
    messages.success(request, "Reply taken.")
    return redirect("node-detail", run_id=run.pk, number=node.number)
