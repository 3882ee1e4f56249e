"""Actions on the kernel of a node: judge it again, dispute its verdict, race it, mark it; the reply by hand."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any, ClassVar

from django import forms
from django.db.models import Q
from django.http import HttpResponse
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from adaexplore_site.actions.action import CHANGED, UNDO, Action, ActionForm, Call, Result, Standing
from adaexplore_site.actions.registry import register
from adaexplore_site.core.audit import ActionRefused
from adaexplore_site.core.models import AuditEntry
from adaexplore_site.core.requests import SiteRequest
from adaexplore_site.core.text import clip, storable_text
from judge.devices.models import Device
from judge.evaluations.models import Evaluation
from judge.evaluations.services import REASON_CHARS, Marks
from judge.values import Basis, Verdict
from search.compare.columns import key_of
from search.engine.steps import reply_submit
from search.nodes.views import node_load, node_panel, node_response
from search.rechecks import marking
from search.rechecks.models import Recheck
from search.rechecks.services import QUEUED_S, recheck_hop
from search.records.events import KernelAsked
from search.records.kinds import GONE, RUN, RunEntries, RunVerb, action_record
from search.records.log import event_write
from search.records.models import Node, Run
from search.records.queue import sent
from search.runs.services import run_held

if TYPE_CHECKING:
    from django_stubs_ext import StrOrPromise

PANEL: tuple[str, ...] = ("run-detail", "node-detail")
REPLY_CHARS = 1 << 20
NOTE_CHARS = 1000
BY_PERSON = "marked by a person"


class NodeAction(RunVerb, Action):
    """Something done to a node, by a form of its panel or of a list."""

    takes = ("run_id", "number")
    pages = PANEL

    def locate(self, where: Mapping[str, Any]) -> Node:
        return node_load(where["run_id"], where["number"])

    def again(self, entry: AuditEntry) -> Result:
        """Back to the page that the form stands on."""
        return Result()

    def home(self, target: Node) -> str:
        return reverse("node-detail", args=[target.run_id, target.number])

    def panel(self, request: SiteRequest, target: Node, **context: Any) -> HttpResponse | None:
        """The node's panel where the form stands on it; lists and the comparison name no panel."""
        return node_panel(request, target.run_id, request.POST.get("panel", ""), **context)

    def detail(self, entry: AuditEntry, loaded: RunEntries) -> str:
        """The reason that was given."""
        return str(entry.after.get("note") or entry.after.get("doubt_reason") or "")


class JudgeAgain(NodeAction):
    """Queue the kernel for its device once more. The node keeps the verdict that its search went on with."""

    asks: ClassVar[Recheck.Kind]
    message: ClassVar[StrOrPromise] = _(
        "It was queued for its device. The new verdict will be shown beside the old one."
    )
    irreversible = _("both verdicts are kept")

    def run(self, target: Node, data: dict[str, Any], call: Call) -> Result:
        run = run_held(target.run)
        node = Node.objects.select_related("evaluation__device").get(pk=target.pk)
        before, rival, note = judged_here(node), data.get("rival"), data.get("reason", "")
        if rival is not None:
            _may_race(node, before, rival)
        if node.rechecks.filter(kind=self.asks, state__in=Recheck.OPEN).exists():
            raise ActionRefused(
                gettext("Node %(number)s is already being judged again. Wait for that verdict.")
                % {"number": node.number}
            )
        row = Recheck.objects.create(
            node=node,
            kind=self.asks,
            rival=rival,
            note=note,
            asked_by=call.user,
            before=before,
            lease_until=timezone.now() + timedelta(seconds=QUEUED_S),
        )
        after: dict[str, Any] = {"number": node.number, "recheck": row.pk}
        after |= {"rival": f"{rival.run_id}.{rival.number}"} if rival else {}
        event_write(run=run, event=KernelAsked(**after, kind=self.asks.value), actor=call.user)
        said = {**after, "note": clip(note, 400)} if note else after
        action_record(verb=self.name, run=run, **call.who, after=said)
        return sent(str(self.message), [recheck_hop(row, before.device)])


def judged_here(node: Node) -> Evaluation:
    """The node's verdict. Raises ActionRefused unless a worker of this installation can judge the kernel again."""
    evaluation = node.evaluation
    if evaluation is None or not node.source:
        raise ActionRefused(
            gettext("Node %(number)s has no kernel with a verdict. Choose another node, or wait.")
            % {"number": node.number}
        )
    device = evaluation.device
    if evaluation.elsewhere or not device.judges:
        raise ActionRefused(gettext("This kernel was not judged here. Branch a search from it to have it judged here."))
    if device.remote:
        raise ActionRefused(
            gettext("%(name)s belongs to another machine: export jobs for it with judge_export_jobs.")
            % {"name": device.name}
        )
    if node.run.problem.quarantined:
        raise ActionRefused(
            gettext("The problem is quarantined: nothing of it is judged until it is released on its page.")
        )
    if device.state == Device.State.QUARANTINED:
        raise ActionRefused(
            gettext("%(name)s is quarantined: nothing is judged there until a check has passed.")
            % {"name": device.name}
        )
    return evaluation


def _may_race(node: Node, mine: Evaluation, rival: Node) -> None:
    other = judged_here(rival)
    if (other.problem_id, other.device_id) != (mine.problem_id, mine.device_id):
        raise ActionRefused(gettext("Only kernels of the same problem on the same device are measured as a pair."))
    if other.candidate_hash == mine.candidate_hash:
        raise ActionRefused(
            gettext("Both are the same kernel except for layout and comments: there is nothing to measure.")
        )
    if mine.device.basis is not Basis.MEASURED:
        raise ActionRefused(
            gettext("Times on %(name)s are modelled, so kernels cannot be measured as a pair there.")
            % {"name": mine.device.name}
        )
    if mine.verdict != Verdict.PASS.value or other.verdict != Verdict.PASS.value:
        raise ActionRefused(gettext("Only correct kernels are raced."))


@register
class VerifyKernel(JudgeAgain):
    """Judge and measure the kernel again, with an audit. A kernel that passed and now fails is quarantined."""

    name, label = "kernel.verify", _("Judge and measure the kernel again")
    key, on_node = "v", True
    pages = (*PANEL, "kernel-list")
    route, path = "kernel-verify", "s/<int:run_id>/n/<int:number>/verify"
    asks = Recheck.Kind.VERIFY
    done = _("was queued to be judged again")


class DisputeForm(ActionForm):
    reason = forms.CharField(
        widget=forms.Textarea,
        help_text=_("Why the verdict is wrong."),
        error_messages={"required": _("Enter why the verdict is wrong. The reason is shown beside both verdicts.")},
    )

    def clean_reason(self) -> str:
        """On one line."""
        reason = " ".join(storable_text(self.cleaned_data["reason"]).split())
        if len(reason) > NOTE_CHARS:
            raise forms.ValidationError(
                gettext("The reason has %(count)s characters; %(note_chars)s fit.")
                % {"count": len(reason), "note_chars": NOTE_CHARS}
            )
        return reason


@register
class DisputeVerdict(JudgeAgain):
    """Judge the kernel again and keep the reason why its verdict is disputed."""

    name, label = "kernel.dispute", _("Dispute the verdict")
    route, path = "kernel-dispute", "s/<int:run_id>/n/<int:number>/dispute"
    Form = DisputeForm
    asks = Recheck.Kind.DISPUTE
    done = _("has a disputed verdict and was queued to be judged again")


class RaceForm(ActionForm):
    rival = forms.CharField(
        help_text=_("The other kernel as search.node, such as 4.17."),
        error_messages={"required": _("Name the other kernel as search.node, such as 4.17.")},
    )

    def clean_rival(self) -> Node:
        """The kernel of that name."""
        text = str(self.cleaned_data["rival"])
        wanted = key_of(text)
        rows = Node.objects.select_related("evaluation__device")
        found = rows.filter(run=wanted.run_id, number=wanted.number).first() if wanted else None
        if found is None:
            raise forms.ValidationError(
                gettext("There is no kernel %(text)r. Write search.node, such as 4.17.") % {"text": text[:40]}
            )
        return found


@register
class RaceKernels(JudgeAgain):
    """Measure the kernel side by side with another kernel of the same problem and device."""

    name, label = "kernel.race", _("Measure as a pair")
    key = "m"
    pages = ("compare",)
    route, path = "kernel-race", "s/<int:run_id>/n/<int:number>/race"
    Form = RaceForm
    asks = Recheck.Kind.RACE
    message = _("The race was queued for its device.")
    irreversible = _("a measurement changes no verdict")

    def says(self, after: Mapping[str, Any]) -> str:
        rival = str(after.get("rival", ""))  # of an imported search: anything
        if not rival.replace(".", "", 1).isdecimal():
            return gettext("was queued to be measured as a pair with another kernel")
        return gettext("was queued to be measured as a pair with #%(rival)s") % {"rival": rival}


class CancelForm(ActionForm):
    recheck = forms.IntegerField(
        help_text=_("Number of the request, of kernel.asked in the search's log."),
        error_messages={
            "invalid": _("Enter the number of the request."),
            "required": _("Enter the number of the request."),
        },
    )


@register
class CancelRecheck(NodeAction):
    """Stop judging a kernel again, whether it waits or is on its device. The verdict that it had stays."""

    name, label = "kernel.recheck.cancel", _("Stop judging again")
    route, path = "kernel-recheck-cancel", "s/<int:run_id>/n/<int:number>/recheck/cancel"
    Form = CancelForm
    irreversible = _("request it again to queue it again")
    done = _("is not judged again: the request was stopped")

    def lock(self, target: Node) -> Run:
        """The requests before the search, in the order in which a worker that ends one locks them."""
        list(Recheck.objects.select_for_update().filter(node=target, state__in=Recheck.OPEN).order_by("pk"))
        run: Run = super().lock(target)
        return run

    def run(self, target: Node, data: dict[str, Any], call: Call) -> Result:
        mine = Recheck.objects.filter(pk=data["recheck"], node=target, state__in=Recheck.OPEN)
        message = f"Stopped by {call.user.get_username()}." if call.user else "Stopped."
        changed = mine.update(state=Recheck.State.FAILED, ended_at=timezone.now(), message=message)
        run = run_held(target.run)  # after the request, as a worker that ends it does
        if not changed:
            raise ActionRefused(gettext("The request neither waits nor runs: it has ended. Reload the page."))
        action_record(verb=self.name, run=run, **call.who, after={"number": target.number, "recheck": data["recheck"]})
        return Result(gettext("Stopped. The kernel keeps the verdict that it had."))


class Mark(NodeAction):
    """A mark on the kernel of a node. It holds for equal kernels of the same problem and device."""

    route, path = "kernel-mark", "s/<int:run_id>/n/<int:number>/mark"
    column: ClassVar[str]  # of the verdict that it changes: doubt or retired
    value: ClassVar[Any]
    message: ClassVar[StrOrPromise]

    def lock(self, target: Node) -> Run:
        """Every search that has the kernel, in the order in which marks lock them."""
        if target.evaluation is not None:
            marking.kernel_held(target.evaluation)
        run: Run = super().lock(target)
        return run

    def run(self, target: Node, data: dict[str, Any], call: Call) -> Result:
        if target.evaluation_id is None:
            raise ActionRefused(
                gettext("Node %(number)s has no verdict, so its kernel cannot be marked.") % {"number": target.number}
            )
        held = marking.kernel_held(Evaluation.objects.get(pk=target.evaluation_id))
        if getattr(held.marks, self.column) != self.value:
            reason = clip(" ".join(data.get("reason", "").split()), REASON_CHARS)
            marking.marks_put(node=target, held=held, verb=self.name, after=self.marked(held.marks, reason), **call.who)
        return Result(str(self.message))

    def marked(self, marks: Marks, reason: str) -> Marks:
        """The marks with this one."""
        raise NotImplementedError

    def standing(self, entry: AuditEntry, loaded: RunEntries) -> Standing:
        """A mark that holds can be taken back, also after its search has ended."""
        if loaded.run(entry) is None:
            return GONE
        now = loaded.once("marks", _marks).get((int(entry.object_id), entry.after["number"]), {})
        return UNDO if now.get(self.column) == entry.after[self.column] else CHANGED

    def undo(self, entry: AuditEntry, call: Call) -> Result:
        """Put back the mark that held before, with its reason."""
        node = Node.objects.filter(run=RUN.find(entry), number=entry.after["number"]).first()
        if node is None or node.evaluation_id is None:
            raise ActionRefused(gettext("Node %(number)s no longer exists.") % {"number": entry.after["number"]})
        held = marking.kernel_held(Evaluation.objects.get(pk=node.evaluation_id))
        names = [name for name in ("doubt", "doubt_reason", "retired") if name.startswith(self.column)]
        after = replace(held.marks, **{name: entry.before[name] for name in names})
        if after != held.marks:
            verb = marking.VERB_OF[self.column, getattr(after, self.column)]
            marking.marks_put(node=node, held=held, verb=verb, after=after, **call.who)
        return Result(gettext("Undone."))


class Doubt(Mark):
    """A mark that says whether the verdict is believed."""

    column, value = "doubt", ""

    def marked(self, marks: Marks, reason: str) -> Marks:
        return replace(marks, doubt=self.value, doubt_reason=(reason or BY_PERSON) if self.value else "")


class Retirement(Mark):
    """A mark that says whether the kernel may lead the list of kernels."""

    column = "retired"

    def marked(self, marks: Marks, reason: str) -> Marks:
        return replace(marks, retired=self.value)


def _marks(loaded: RunEntries) -> Mapping[tuple[int, int], Mapping[str, Any]]:
    """The marks of today by search and node of these entries. One query."""
    wanted = Q()
    for entry in loaded.entries:
        if entry.verb in marking.VERBS:
            wanted |= Q(run=int(entry.object_id), number=entry.after["number"])
    rows = Node.objects.filter(wanted).values_list("run", "number", "evaluation__doubt", "evaluation__retired")
    return {(run, number): {"doubt": doubt, "retired": retired} for run, number, doubt, retired in rows}


class ReasonForm(ActionForm):
    reason = forms.CharField(required=False, help_text=_("Why; shown beside the mark."))


@register
class QuarantineKernel(Doubt):
    """Doubt the verdict: the kernel can't be the best of a search or a winner until it is released."""

    name, label = marking.QUARANTINE, _("Quarantine the kernel")
    key, on_node = "q", True
    sends, value, inverse = {"mark": "quarantine"}, Evaluation.Doubt.QUARANTINED.value, marking.RELEASE
    Form = ReasonForm
    done = _("is quarantined")
    message = _("Quarantined: the kernel can't be the best of a search or a winner.")


@register
class MarkFlaky(Doubt):
    """Doubt a verdict that differs from time to time, until the kernel is released."""

    name, label = marking.FLAKY, _("Mark the kernel as flaky")
    sends, value, inverse = {"mark": "flaky"}, Evaluation.Doubt.FLAKY.value, marking.RELEASE
    Form = ReasonForm
    done = _("is marked as flaky")
    message = _("Marked as flaky: the kernel can't be the best of a search or a winner.")


@register
class ReleaseKernel(Doubt):
    """End the doubt about the verdict."""

    name, label = marking.RELEASE, _("Release the kernel")
    pages = (*PANEL, "kernel-list")
    sends, inverse = {"mark": "release"}, marking.QUARANTINE
    done = _("is released: its verdict counts again")
    message = _("Released: the verdict of the kernel counts again.")


@register
class RetireKernel(Retirement):
    """Keep a correct kernel from leading the list of kernels."""

    name, label, key = marking.RETIRE, _("Retire the kernel"), "x"
    pages = ("kernel-list",)
    sends, value, inverse = {"mark": "retire"}, True, marking.RESTORE
    done = _("is retired: it can't lead the list of kernels")
    message = _("Retired: the kernel can't lead the list of kernels.")


@register
class RestoreKernel(Retirement):
    """Let a retired kernel lead the list of kernels again."""

    name, label = marking.RESTORE, _("Restore the kernel")
    pages = ("kernel-list",)
    sends, value, inverse = {"mark": "restore"}, False, marking.RETIRE
    done = _("can lead the list of kernels again")
    message = _("The kernel can lead the list of kernels again.")


class ReplyForm(ActionForm):
    text = forms.CharField(
        strip=False,
        max_length=REPLY_CHARS,
        widget=forms.Textarea,
        help_text=_("The reply, with its code in a fenced block."),
        error_messages={
            "required": _("Write the reply, with its code in a fenced block."),
            "max_length": _("The reply has %(show_value)d characters; the limit is %(limit_value)d."),
        },
    )


@register
class SendReply(NodeAction):
    """Answer the prompt of a waiting node by hand. The kernel in the reply goes to the judge."""

    name, label = "node.reply", _("Send the reply")
    pages = ("node-detail",)
    route, path = "node-reply", "s/<int:run_id>/n/<int:number>/reply"
    Form = ReplyForm
    irreversible = _("the kernel is judged and stays in the tree; prune its node instead")
    done = _("was answered manually")

    def run(self, target: Node, data: dict[str, Any], call: Call) -> Result:
        follow_ups = reply_submit(node=target, text=data["text"], **call.who)
        return sent(gettext("The reply was sent to the judge."), follow_ups)

    def panel(self, request: SiteRequest, target: Node, **context: Any) -> HttpResponse:
        """The node again; a refused reply stays in its form."""
        said = {"steer_done": context.get("done", "")}
        if "refused" in context:
            said = {"reply_error": context["refused"], "reply_text": context["typed"].get("text", "")}
        node = node_load(target.run_id, target.number)
        return node_response(request, node, status=context.get("status", 200), **said)
