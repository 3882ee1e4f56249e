"""Acts on a judged kernel: have it judged once more, dispute its verdict, race it, mark it."""

from __future__ import annotations

from collections.abc import Callable

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.views.decorators.http import require_POST

from adaexplore_site.access import Role, role_required
from adaexplore_site.audit import ActionRefused
from adaexplore_site.requests import SiteRequest, came_from, form_key
from search.compare.asked import key_of
from search.models import Node, Recheck, Run
from search.services import marking
from search.services.rechecks import recheck_ask, recheck_cancel
from search.tasks import send
from search.views.nodes import node_load, node_response
from search.views.runs import refused

MARKED = {
    "quarantine": "Quarantined: it is no best and no winner.",
    "flaky": "Marked as flaky: it is no best and no winner.",
    "release": "Believed again.",
    "retire": "Retired: it leads no list of kernels.",
    "restore": "It may lead the list of kernels again.",
}
WAITS = "It waits for its device; the new verdict will stand beside the old one."


@role_required(Role.OPERATOR)
@require_POST
def kernel_verify(request: SiteRequest, run_id: int, number: int) -> HttpResponse:
    """Judge the kernel once more, with an audit."""
    return _ask(request, run_id, number, Recheck.Kind.VERIFY)


@role_required(Role.OPERATOR)
@require_POST
def kernel_dispute(request: SiteRequest, run_id: int, number: int) -> HttpResponse:
    """The same, with the reason why the verdict is not believed in `reason`."""
    return _ask(request, run_id, number, Recheck.Kind.DISPUTE)


@role_required(Role.OPERATOR)
@require_POST
def kernel_race(request: SiteRequest, run_id: int, number: int) -> HttpResponse:
    """Measure it side by side with `rival`, a kernel as search.node."""
    return _ask(request, run_id, number, Recheck.Kind.RACE)


def _ask(request: SiteRequest, run_id: int, number: int, kind: Recheck.Kind) -> HttpResponse:
    def ask(node: Node) -> str:
        rival = _rival(request.POST.get("rival", "")) if kind == Recheck.Kind.RACE else None
        note = request.POST.get("reason", "") if kind == Recheck.Kind.DISPUTE else ""
        send(recheck_ask(node=node, kind=kind, rival=rival, note=note, user=request.user, key=form_key(request)))
        return "The race waits for its device." if rival else WAITS

    return _answered(request, run_id, number, ask)


def _rival(text: str) -> Node:
    wanted = key_of(text)
    rows = Node.objects.select_related("evaluation__device")
    found = rows.filter(run=wanted.run_id, number=wanted.number).first() if wanted else None
    if found is None:
        raise ActionRefused(f"There is no kernel {text[:40]!r} to race. Write search.node, such as 12.3.")
    return found


@role_required(Role.OPERATOR)
@require_POST
def kernel_mark(request: SiteRequest, run_id: int, number: int) -> HttpResponse:
    """Put the mark named `mark` on the kernel, or take it away. `reason` says why."""

    def put(node: Node) -> str:
        mark = request.POST.get("mark", "")
        if mark not in MARKED:
            raise ActionRefused(f"There is no mark {mark[:40]!r}. Reload the page and try again.")
        reason = request.POST.get("reason", "")
        marking.kernel_mark(node=node, verb=f"kernel.{mark}", reason=reason, user=request.user, key=form_key(request))
        return MARKED[mark]

    return _answered(request, run_id, number, put)


@role_required(Role.OPERATOR)
@require_POST
def kernel_recheck_cancel(request: SiteRequest, run_id: int, number: int) -> HttpResponse:
    """Take the request numbered `recheck` back while it waits."""

    def cancel(node: Node) -> str:
        text = request.POST.get("recheck", "")
        wanted = int(text) if text.isascii() and text.isdecimal() and len(text) < 19 else 0
        recheck_cancel(node=node, recheck_id=wanted, user=request.user, key=form_key(request))
        return "Taken back: it is not judged once more."

    return _answered(request, run_id, number, cancel)


def _answered(request: SiteRequest, run_id: int, number: int, act: Callable[[Node], str]) -> HttpResponse:
    """Scripts get the node's panel again, forms are led back; a refusal is 409 with why."""
    run, node = node_load(run_id, number)
    panel = request.htmx and request.POST.get("panel") == str(number)
    try:
        done = act(node)
    except ActionRefused as error:
        return _refused(request, run, node, str(error))
    if panel:
        return node_response(request, *node_load(run_id, number), steer_done=done)
    messages.success(request, done)
    return redirect(came_from(request) or reverse("node-detail", args=[run_id, number]))


def _refused(request: SiteRequest, run: Run, node: Node, message: str) -> HttpResponse:
    if request.POST.get("panel") == str(node.number):
        typed = {name: str(value) for name, value in request.POST.items()}
        return node_response(request, run, node, status=409, steer_refused=message, typed=typed)
    return refused(request, message, run)
