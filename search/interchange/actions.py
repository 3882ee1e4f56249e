"""Importing searches, and what the audit log tells of exports."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django import forms
from django.core.files.uploadedfile import UploadedFile
from django.urls import reverse
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from adaexplore_site.actions.action import Action, ActionForm, Call, Recorded, Result
from adaexplore_site.actions.registry import register
from adaexplore_site.core.audit import ActionRefused, FieldsRefused
from adaexplore_site.core.env import MAX_UPLOAD_BYTES
from adaexplore_site.core.models import AuditEntry
from judge.devices.services import judging_devices
from judge.problems.models import Problem
from judge.problems.views import preflight_start
from search.interchange.imports import recorded_read, search_import
from search.records.kinds import RUN, RunEntries
from search.records.models import Run

EXAMINER = "interpreter"  # every machine has it; shapes alone tell much where a problem is too large for it
NO_FILE = _("No file was uploaded. Choose a .zip, .json or .json.gz file.")


class ImportForm(ActionForm):
    file = forms.FileField(
        allow_empty_file=True, help_text=_("name, and text or base64"), error_messages={"required": NO_FILE}
    )


class GalleryForm(ActionForm):
    name = forms.CharField(required=False, help_text=_("of a recorded search on this machine"))
    file = forms.FileField(required=False, allow_empty_file=True)

    def clean(self) -> dict[str, Any]:
        """Raises ValidationError when there is neither a name nor a file."""
        if not self.errors and not (self.cleaned_data["name"] or self.cleaned_data["file"]):
            raise forms.ValidationError(NO_FILE)
        return self.cleaned_data


class Import(Action):
    """Import a file: its search is browsed like any other. The same file again gives the search that is there."""

    kind = RUN
    done = _("Imported the search")
    irreversible = _("its page removes it")

    def run(self, target: None, data: dict[str, Any], call: Call) -> Result:
        blamed = "name" if data.get("name") else "file"
        try:
            name, content = self.content(data)
            if len(content) > MAX_UPLOAD_BYTES:
                most = MAX_UPLOAD_BYTES >> 20
                raise ActionRefused(
                    gettext("%(name)s is larger than %(most)s MiB. Import it by command: import_search.")
                    % {"name": name, "most": most}
                )
            run = search_import(data=content, name=name, user=call.user)
        except ActionRefused as error:
            raise FieldsRefused({blamed: str(error)}) from error
        return Result(then=lambda: examine(run.problem), location=self.page(run))

    def content(self, data: Mapping[str, Any]) -> tuple[str, bytes]:
        """Name and bytes of the file. Raises ActionRefused with what to do."""
        sent: UploadedFile[bytes] = data["file"]
        if sent.size is not None and sent.size > MAX_UPLOAD_BYTES:  # before it is read into memory
            raise ActionRefused(
                gettext("The file is larger than %(most)d MiB. Import it by command: import_search.")
                % {"most": MAX_UPLOAD_BYTES >> 20}
            )
        return sent.name or "upload", sent.read()

    def page(self, run: Run) -> str:
        """Where the search is shown."""
        return reverse("run-detail", args=[run.pk])


@register
class ImportRun(Import):
    """Import a search from its page."""

    name, label = "run.import", _("Import")
    pages = ("run-import",)
    route = "run-import"
    Form = ImportForm


@register
class ImportRecording(Import):
    """Import a recorded search, of this machine or uploaded, and play it."""

    name, label = "gallery.import", _("Import and play")
    verb = "run.import"
    pages = ("gallery",)
    route = "gallery"
    Form = GalleryForm

    def content(self, data: Mapping[str, Any]) -> tuple[str, bytes]:
        name = data["name"]
        if not name:
            return super().content(data)
        try:
            found = recorded_read(name)
        except OSError as error:
            raise ActionRefused(
                gettext("%(name)s cannot be read: %(strerror)s. Choose another file.")
                % {"name": name, "strerror": error.strerror}
            ) from error
        if found is None:
            raise ActionRefused(
                gettext("There is no such file on this machine any more. Reload the page to see those that are.")
            )
        return name, found

    def page(self, run: Run) -> str:
        return play_address(run)


@register
class Exported(Recorded):
    """A search, or one of its nodes, was downloaded."""

    kind = RUN
    name = "run.export"
    irreversible = _("a download changes nothing")

    def describe(self, entry: AuditEntry, loaded: RunEntries) -> str:
        return gettext("Exported the %(what)s") % {"what": entry.after.get("what", gettext("search"))}

    def detail(self, entry: AuditEntry, loaded: RunEntries) -> str:
        return gettext("node %(number)s") % {"number": entry.after["node"]} if "node" in entry.after else ""


def play_address(run: Run) -> str:
    """The cockpit at the start of the search, growing."""
    return reverse("run-detail", args=[run.pk], query={"at": 0, "play": 1})


def examine(problem: Problem) -> None:
    """Queue the preflight of a problem that was never checked: a degenerate one must be flagged."""
    device = judging_devices().filter(name=EXAMINER).first()
    if device is not None and problem.state == Problem.State.PENDING and not problem.report_for(device.name):
        preflight_start(problem, device)
