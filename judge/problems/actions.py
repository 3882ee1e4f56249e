"""Actions on problems."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from django import forms
from django.conf import settings
from django.core.files.uploadedfile import UploadedFile
from django.http import HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from adaexplore_site.actions.action import Action, ActionForm, Call, Kind, Result, Subject
from adaexplore_site.actions.registry import register
from adaexplore_site.core.audit import FieldsRefused
from adaexplore_site.core.models import AuditEntry
from adaexplore_site.core.requests import SiteRequest
from judge.problems.models import Problem
from judge.problems.services import ProblemRejected, problem_upload
from judge.sources.highlighting import visible

PLAIN_NAME = 80  # characters of a file name on a page
NO_FILE = _("No file was uploaded. Choose a .py file, or drop one on the dashed area.")

Problems = Mapping[str, Problem]


class ProblemKind(Kind):
    name = "problem"

    def load(self, entries: Sequence[AuditEntry]) -> Problems:
        rows = Problem.objects.only("title", "slug").in_bulk({int(entry.object_id) for entry in entries})
        return {str(pk): row for pk, row in rows.items()}

    def subject(self, entry: AuditEntry, loaded: Problems) -> Subject | None:
        row = loaded.get(entry.object_id)
        return None if row is None else Subject("problem", row.title, reverse("problem-detail", args=[row.slug]))


KIND = ProblemKind()


class UploadForm(ActionForm):
    file = forms.FileField(
        allow_empty_file=True, help_text=_("Name, and text or base64."), error_messages={"required": NO_FILE}
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
            _check_size(sent)
            problem, created = problem_upload(name=sent.name or "", data=sent.read(), user=call.user, key=call.key)
        except ProblemRejected as error:
            raise Rejected(error) from error
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
            "upload_name": visible(sent.name or "")[:PLAIN_NAME] if sent is not None else "",
        }
        template = "problems/_dropzone.html" if request.htmx else "problems/upload.html"
        return render(request, template, facts, status=context["status"])


def _check_size(sent: UploadedFile[bytes]) -> None:
    """Raise ProblemRejected for a file that is too large, before it is read."""
    if sent.size is not None and sent.size > settings.MAX_PROBLEM_BYTES:
        raise ProblemRejected(
            gettext(
                "The file has %(size)s KiB; the limit is %(limit)s KiB. Create large tensors in get_inputs() instead "
                "of writing them out."
            )
            % {"size": f"{sent.size / 1024:,.0f}", "limit": f"{settings.MAX_PROBLEM_BYTES / 1024:,.0f}"}
        )
