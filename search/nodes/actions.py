"""Actions on the kernel of a node: judge it again, dispute its verdict, race it, mark it; the reply by hand."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, ClassVar

from django import forms
from django.db.models import Q
from django.http import HttpResponse
from django.urls import reverse

from adaexplore_site.actions.action import CHANGED, UNDO, Action, ActionForm, Call, Result, Standing
from adaexplore_site.actions.registry import register
from adaexplore_site.core.audit import ActionRefused
from adaexplore_site.core.models import AuditEntry
from adaexplore_site.core.requests import SiteRequest
from search.compare.columns import key_of
from search.engine.steps import reply_submit
from search.nodes.views import node_load, node_panel, node_response
from search.rechecks import marking
from search.rechecks.models import Recheck
from search.rechecks.services import recheck_ask, recheck_cancel
from search.records.kinds import RUN, RunEntries
from search.records.models import Node, Run
from search.records.queue import send

PANEL: tuple[str, ...] = ("run-detail", "node-detail")
REPLY_CHARS = 1 << 20
GONE = Standing(why_not="the search is gone")
QUEUED = "It was queued for its device. The new verdict will be shown beside the old one."

Marks = Mapping[tuple[int, int], Mapping[str, Any]]  # run and node -> doubt, retired


class NodeAction(Action):
    """Something done to a node, by a form of its panel or of a list. `says` stands after "Node 7"."""

    kind = RUN
    takes = ("run_id", "number")
    pages = PANEL
    says: ClassVar[str]

    def locate(self, where: Mapping[str, Any]) -> Node:
        run, node = node_load(where["run_id"], where["number"])
        node.run = run
        return node

    def again(self, entry: AuditEntry) -> Result:
        """Back to the page that the form stands on."""
        return Result()

    def home(self, target: Node) -> str:
        return reverse("node-detail", args=[target.run_id, target.number])

    def panel(self, request: SiteRequest, target: Node, **context: Any) -> HttpResponse | None:
        """The node's panel where the form stands on it; lists and the comparison name no panel."""
        return node_panel(request, target.run_id, request.POST.get("panel", ""), **context)

    def sentence(self, after: Mapping[str, Any]) -> str:
        """What was done, after "Node 7"."""
        return self.says

    def describe(self, entry: AuditEntry, loaded: RunEntries) -> str:
        number, text = entry.after.get("number"), self.sentence(entry.after)
        return text if number is None else f"Node {number} {text}"

    def detail(self, entry: AuditEntry, loaded: RunEntries) -> str:
        """The reason that was given."""
        return str(entry.after.get("note") or entry.after.get("doubt_reason") or "")


class JudgeAgain(NodeAction):
    """Queue the kernel for its device once more. The node keeps the verdict that its search went on with."""

    asks: ClassVar[Recheck.Kind]
    message = QUEUED
    irreversible = "both verdicts are kept"

    def run(self, target: Node, data: dict[str, Any], call: Call) -> Result:
        hops = recheck_ask(node=target, kind=self.asks, **self.more(data), **call.who)
        return Result(self.message, then=partial(send, hops))

    def more(self, data: Mapping[str, Any]) -> dict[str, Any]:
        """What the form adds to the request."""
        return {}


@register
class VerifyKernel(JudgeAgain):
    """Judge and measure the kernel again, with an audit. A kernel that passed and now fails is quarantined."""

    name, label = "kernel.verify", "Judge and measure the kernel once more"
    key, on_node = "v", True
    pages = (*PANEL, "kernel-list")
    route = "kernel-verify"
    asks = Recheck.Kind.VERIFY
    says = "was queued to be judged again"


class DisputeForm(ActionForm):
    reason = forms.CharField(
        widget=forms.Textarea,
        help_text="Why the verdict is wrong.",
        error_messages={"required": "Say why the verdict is wrong. The reason is shown beside both verdicts."},
    )


@register
class DisputeVerdict(JudgeAgain):
    """Judge the kernel again and keep the reason why its verdict is disputed."""

    name, label = "kernel.dispute", "Dispute the verdict"
    route = "kernel-dispute"
    Form = DisputeForm
    asks = Recheck.Kind.DISPUTE
    says = "has a disputed verdict and was queued to be judged again"

    def more(self, data: Mapping[str, Any]) -> dict[str, Any]:
        return {"note": data["reason"]}


class RaceForm(ActionForm):
    rival = forms.CharField(
        help_text="The other kernel as search.node, such as 4.17.",
        error_messages={"required": "Name the other kernel as search.node, such as 4.17."},
    )

    def clean_rival(self) -> Node:
        """The kernel of that name."""
        text = str(self.cleaned_data["rival"])
        wanted = key_of(text)
        rows = Node.objects.select_related("evaluation__device")
        found = rows.filter(run=wanted.run_id, number=wanted.number).first() if wanted else None
        if found is None:
            raise forms.ValidationError(f"There is no kernel {text[:40]!r}. Write search.node, such as 4.17.")
        return found


@register
class RaceKernels(JudgeAgain):
    """Measure the kernel side by side with another kernel of the same problem and device."""

    name, label = "kernel.race", "Measure as a pair"
    key = "m"
    pages = ("compare",)
    route = "kernel-race"
    Form = RaceForm
    asks = Recheck.Kind.RACE
    message = "The race was queued for its device."
    irreversible = "a measurement changes no verdict"

    def more(self, data: Mapping[str, Any]) -> dict[str, Any]:
        return {"rival": data["rival"]}

    def sentence(self, after: Mapping[str, Any]) -> str:
        rival = str(after.get("rival", ""))  # of an imported search: anything
        named = f"#{rival}" if rival.replace(".", "", 1).isdecimal() else "another kernel"
        return f"was queued to be measured as a pair with {named}"


class CancelForm(ActionForm):
    recheck = forms.IntegerField(
        help_text="Number of the request, of kernel.asked in the search's log.",
        error_messages={"invalid": "Enter the number of the request.", "required": "Enter the number of the request."},
    )


@register
class CancelRecheck(NodeAction):
    """Take a request out of the queue while no worker has started it."""

    name, label = "kernel.recheck.cancel", "Take the request back"
    route = "kernel-recheck-cancel"
    Form = CancelForm
    irreversible = "ask again to queue it again"
    says = "was taken out of the queue and will not be judged again"

    def lock(self, target: Node) -> Run:
        """The requests before the search, in the order in which a worker that ends one locks them."""
        list(Recheck.objects.select_for_update().filter(node=target, state=Recheck.State.QUEUED).order_by("pk"))
        run: Run = super().lock(target)
        return run

    def run(self, target: Node, data: dict[str, Any], call: Call) -> Result:
        recheck_cancel(node=target, recheck_id=data["recheck"], **call.who)
        return Result("The request was taken back. The kernel will not be judged again.")


class Mark(NodeAction):
    """A mark on the kernel of a node. It holds for equal kernels of the same problem and device."""

    route = "kernel-mark"
    column: ClassVar[str]  # of the verdict that it changes: doubt or retired
    message: ClassVar[str]

    def lock(self, target: Node) -> Run:
        """Every search that has the kernel, in the order in which marks lock them."""
        marking.kernel_lock(target)
        run: Run = super().lock(target)
        return run

    def run(self, target: Node, data: dict[str, Any], call: Call) -> Result:
        marking.kernel_mark(node=target, verb=self.name, reason=data.get("reason", ""), **call.who)
        return Result(self.message)

    def standing(self, entry: AuditEntry, loaded: RunEntries) -> Standing:
        """A mark that holds can be taken back, also after its search has ended."""
        if loaded.run(entry) is None:
            return GONE
        now = loaded.once("marks", _marks).get((int(entry.object_id), entry.after["number"]), {})
        return UNDO if now.get(self.column) == entry.after[self.column] else CHANGED

    def undo(self, entry: AuditEntry, call: Call) -> Result:
        """Put back the mark that held before, with its reason."""
        node = Node.objects.filter(run=RUN.find(entry), number=entry.after["number"]).first()
        if node is None:
            raise ActionRefused(f"Node {entry.after['number']} is gone.")
        marking.kernel_unmark(node=node, verb=self.name, before=entry.before, **call.who)
        return Result("Undone.")


def _marks(loaded: RunEntries) -> Marks:
    """The marks of today on the kernels of these entries. One query."""
    wanted = Q()
    for entry in loaded.entries:
        if entry.verb in marking.VERBS:
            wanted |= Q(run=int(entry.object_id), number=entry.after["number"])
    rows = Node.objects.filter(wanted).values_list("run", "number", "evaluation__doubt", "evaluation__retired")
    return {(run, number): {"doubt": doubt, "retired": retired} for run, number, doubt, retired in rows}


class ReasonForm(ActionForm):
    reason = forms.CharField(required=False, help_text="Why; shown beside the mark.")


@register
class QuarantineKernel(Mark):
    """Doubt the verdict: the kernel can't be the best of a search or a winner until it is released."""

    name, label = marking.QUARANTINE, "Quarantine the kernel"
    key, on_node = "q", True
    sends, column, inverse = {"mark": "quarantine"}, "doubt", marking.RELEASE
    Form = ReasonForm
    says = "is quarantined"
    message = "Quarantined: the kernel can't be the best of a search or a winner."


@register
class MarkFlaky(Mark):
    """Doubt a verdict that differs from time to time, until the kernel is released."""

    name, label = marking.FLAKY, "Mark the kernel as flaky"
    sends, column, inverse = {"mark": "flaky"}, "doubt", marking.RELEASE
    Form = ReasonForm
    says = "is marked as flaky"
    message = "Marked as flaky: the kernel can't be the best of a search or a winner."


@register
class ReleaseKernel(Mark):
    """End the doubt about the verdict."""

    name, label = marking.RELEASE, "Believe the kernel again"
    pages = (*PANEL, "kernel-list")
    sends, column, inverse = {"mark": "release"}, "doubt", marking.QUARANTINE
    says = "is believed again"
    message = "The kernel is believed again."


@register
class RetireKernel(Mark):
    """Keep a correct kernel from leading the list of kernels."""

    name, label, key = marking.RETIRE, "Retire the kernel from the lead", "x"
    pages = ("kernel-list",)
    sends, column, inverse = {"mark": "retire"}, "retired", marking.RESTORE
    says = "is retired: it can't lead the list of kernels"
    message = "Retired: the kernel can't lead the list of kernels."


@register
class RestoreKernel(Mark):
    """Let a retired kernel lead the list of kernels again."""

    name, label = marking.RESTORE, "Let the kernel lead again"
    pages = ("kernel-list",)
    sends, column, inverse = {"mark": "restore"}, "retired", marking.RETIRE
    says = "can lead the list of kernels again"
    message = "The kernel can lead the list of kernels again."


class ReplyForm(ActionForm):
    text = forms.CharField(
        strip=False,
        max_length=REPLY_CHARS,
        widget=forms.Textarea,
        help_text="The reply, with its code in a fenced block.",
        error_messages={
            "required": "Write the reply, with its code in a fenced block.",
            "max_length": "The reply has %(show_value)d characters; the limit is %(limit_value)d.",
        },
    )


@register
class SendReply(NodeAction):
    """Answer the prompt of a waiting node by hand. The kernel in the reply goes to the judge."""

    name, label = "node.reply", "Send the reply"
    pages = ("node-detail",)
    route = "node-reply"
    Form = ReplyForm
    irreversible = "the kernel is judged and stays in the tree; prune its node instead"
    says = "was answered by hand"

    def run(self, target: Node, data: dict[str, Any], call: Call) -> Result:
        hops = reply_submit(node=target, text=data["text"], **call.who)
        return Result("The reply was sent to the judge.", then=partial(send, hops))

    def panel(self, request: SiteRequest, target: Node, **context: Any) -> HttpResponse:
        """The node again; a refused reply stays in its form."""
        said = {"steer_done": context.get("done", "")}
        if "refused" in context:
            said = {"reply_error": context["refused"], "reply_text": context["typed"].get("text", "")}
        run, node = node_load(target.run_id, target.number)
        return node_response(request, run, node, status=context.get("status", 200), **said)
