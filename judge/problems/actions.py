"""Actions on problems."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django import forms
from django.conf import settings
from django.core.files.uploadedfile import UploadedFile
from django.http import HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from adaexplore_site.actions.action import (
    CHANGED,
    UNDO,
    Action,
    ActionForm,
    Call,
    Recorded,
    Result,
    Standing,
)
from adaexplore_site.actions.registry import register
from adaexplore_site.core.audit import ActionRefused, FieldsRefused, action_on
from adaexplore_site.core.models import AuditEntry
from adaexplore_site.core.requests import SiteRequest
from judge.devices.models import Device
from judge.evaluations.beside import GRADIENTS_HELP
from judge.problems.admission import STOP, STOPPED, admission_queue, admission_stop
from judge.problems.kind import KIND, Problems, problem_at
from judge.problems.models import Problem
from judge.problems.services import ProblemRejected, problem_upload
from judge.problems.views import preflight_panel, preflight_send
from judge.sources.highlighting import visible
from judge.values import GRADIENTS, PRECISIONS, Gradients, Precision

PLAIN_NAME = 80  # characters of a file name on a page
NO_FILE = _("No file was uploaded. Choose a .py file, or drop one on the dashed area.")

ASKED = "preflight.ask"


class UploadForm(ActionForm):
    file = forms.FileField(
        allow_empty_file=True, help_text=_("Name, and text or base64."), error_messages={"required": NO_FILE}
    )
    numerics = forms.ChoiceField(
        choices=[(one.value, PRECISIONS[one]) for one in Precision],
        required=False,
        help_text=_("Where TF32 or 16 bits are allowed, for PyTorch and for kernels; strict without it."),
        error_messages={"invalid_choice": _("There are no numerics %(value)s. Choose strict, shipped, tf32 or half.")},
    )
    gradients = forms.ChoiceField(
        choices=[(one.value, GRADIENTS[one]) for one in Gradients],
        required=False,
        help_text=GRADIENTS_HELP,
        error_messages={
            "invalid_choice": _("There are no gradients %(value)s. Choose none, inputs, parameters or all.")
        },
    )


class Rejected(FieldsRefused):
    """The file is no problem. `line` is where, when that is known."""

    def __init__(self, error: ProblemRejected) -> None:
        at_line = gettext("Line %(line)d: %(message)s") % {"line": error.line or 0, "message": error.message}
        super().__init__({"file": at_line if error.line else error.message})
        self.message, self.line = error.message, error.line


@register
class UploadProblem(Action):
    """Store a module, then go on to a new search with it. The same text is stored once."""

    kind = KIND
    name, label, done = "problem.upload", _("Upload a problem"), _("Uploaded")
    Form, route = UploadForm, "problem-upload"
    irreversible = _("searches may use it")
    own_words = True

    def run(self, target: Any, data: dict[str, Any], call: Call) -> Result:
        sent: UploadedFile[bytes] = data["file"]
        try:
            check_size(sent)
            problem, created = problem_upload(
                name=sent.name or "",
                data=sent.read(),
                user=call.user,
                key=call.key,
                precision=Precision(data.get("numerics") or Precision.STRICT),
                gradients=Gradients(data.get("gradients") or Gradients.NONE),
            )
        except ProblemRejected as error:
            raise Rejected(error) from error
        if problem.archived_at is not None:
            text = gettext("This file is the archived problem “%(title)s”. Unarchive it there.")
            where = reverse("problem-detail", args=[problem.slug])
            return Result(text % {"title": problem.title}, location=where)
        known = gettext("This file was already uploaded as “%(title)s”.") % {"title": problem.title}
        return Result("" if created else known, location=reverse("run-new", query={"problem": problem.slug}))

    def again(self, entry: AuditEntry) -> Result:
        return Result(location=reverse("run-new", query={"problem": entry.after["slug"]}))

    def home(self, target: Any) -> str:
        return reverse("problem-list")

    def panel(self, request: SiteRequest, target: Any, **context: Any) -> HttpResponse | None:
        """The form again, with what to change in the file."""
        if "refused" not in context:
            return None
        sent, error = request.FILES.get("file"), context.get("error")
        facts = {
            "upload_error": error.message if isinstance(error, Rejected) else context["refused"],
            "upload_line": error.line if isinstance(error, Rejected) else None,
            "upload_numerics": request.POST.get("numerics", ""),
            "upload_gradients": request.POST.get("gradients", ""),
            "upload_name": visible(sent.name or "")[:PLAIN_NAME] if sent is not None else "",
        }
        template = "problems/_dropzone.html" if request.htmx else "problems/upload.html"
        return render(request, template, facts, status=context["status"])


def check_size(sent: UploadedFile[bytes]) -> None:
    """Raise ProblemRejected for a file that is too large, before it is read."""
    if sent.size is not None and sent.size > settings.MAX_PROBLEM_BYTES:
        raise ProblemRejected(
            gettext(
                "The file has %(size)s KiB; the limit is %(limit)s KiB. Create large tensors in get_inputs() instead "
                "of writing them out."
            )
            % {"size": f"{sent.size / 1024:,.0f}", "limit": f"{settings.MAX_PROBLEM_BYTES / 1024:,.0f}"}
        )


class PreflightForm(ActionForm):
    device = forms.CharField(max_length=60, help_text=_("Name of the device whose preflight is meant, such as cuda:0."))

    def clean_device(self) -> Device:
        """The device of that name."""
        found = Device.objects.judging().filter(name=self.cleaned_data["device"]).first()
        if found is None:
            raise forms.ValidationError(gettext("There is no such device. Reload the page."))
        return found


@register
class StopPreflight(Action):
    """Stop a preflight, whether it waits or runs. Undo asks for it again."""

    kind = KIND
    name, label = STOP, _("Stop the preflight")
    takes, route = ("slug",), "problem-preflight-stop"
    pages = ("problem-detail",)
    Form = PreflightForm

    def locate(self, where: Mapping[str, Any]) -> Problem:
        return problem_at(where["slug"])

    def run(self, target: Problem, data: dict[str, Any], call: Call) -> Result:
        admission_stop(problem=target, device=data["device"], **call.who)
        return Result(gettext("The preflight on %(device)s was stopped.") % {"device": data["device"].name})

    def again(self, entry: AuditEntry) -> Result:
        """The page that asked, as after the first call."""
        return Result()

    def home(self, target: Problem) -> str:
        return reverse("problem-detail", args=[target.slug])

    def describe(self, entry: AuditEntry, loaded: Problems) -> str:
        return gettext("Preflight on %(device)s stopped") % {"device": entry.after.get("device", "")}

    def standing(self, entry: AuditEntry, loaded: Problems) -> Standing:
        row = loaded.get(entry.object_id)
        report = row.report_for(str(entry.after.get("device", ""))) if row is not None else None
        return UNDO if report is not None and report.get("state") == STOPPED else CHANGED

    def undo(self, entry: AuditEntry, call: Call) -> Result:
        """Ask for the preflight again."""
        problem: Problem = self.kind.find(entry)
        device = Device.objects.judging().filter(name=entry.after["device"]).first()
        if device is None:
            raise ActionRefused(gettext("The device no longer exists."))
        admission_queue(problem=problem, device=device)
        action_on(verb=ASKED, on=("problem", problem.pk), user=call.user, key=call.key, after={"device": device.name})
        return Result(
            gettext("The preflight on %(device)s is queued again.") % {"device": device.name},
            then=lambda: preflight_send(problem, device),
        )

    def panel(self, request: SiteRequest, target: Problem, **context: Any) -> HttpResponse | None:
        """The panel of the preflight, as it stands now."""
        device = Device.objects.judging().filter(name=request.POST.get("device", "")).first()
        if device is None or not request.htmx:
            return None
        target.refresh_from_db(fields=["admission", "state"])
        return preflight_panel(request, target, device, refused=context.get("refused", ""))


@register
class PreflightAsked(Recorded):
    """A preflight that was stopped was asked for again."""

    kind = KIND
    name = ASKED
    irreversible = _("stop the preflight instead")

    def describe(self, entry: AuditEntry, loaded: Problems) -> str:
        return gettext("Preflight on %(device)s asked for again") % {"device": entry.after.get("device", "")}
