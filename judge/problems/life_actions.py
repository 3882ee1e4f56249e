"""Actions on a problem that is there: next version, archive, deletion, opening its sealed cases."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from django import forms
from django.core.files.uploadedfile import UploadedFile
from django.http import HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils import timezone
from django.utils.cache import add_never_cache_headers
from django.utils.translation import gettext, ngettext
from django.utils.translation import gettext_lazy as _

from adaexplore_site.actions.action import (
    CHANGED,
    REPLACED,
    UNDO,
    Action,
    ActionForm,
    Call,
    Question,
    Result,
    Standing,
)
from adaexplore_site.actions.registry import register
from adaexplore_site.core.access import Role
from adaexplore_site.core.models import AuditEntry
from adaexplore_site.core.requests import SiteRequest
from judge.problems.actions import NO_FILE, Rejected, check_size
from judge.problems.kind import KIND, Problems, problem_at
from judge.problems.life_cycle import deletion_of, problem_archive, problem_delete, version_add
from judge.problems.models import Problem
from judge.problems.sealing import case_rows, sealed_open, sets_to_open
from judge.problems.services import ProblemRejected
from judge.problems.views import sealing_start

if TYPE_CHECKING:
    from django_stubs_ext import StrOrPromise

ARCHIVE, UNARCHIVE = "problem.archive", "problem.unarchive"


class ProblemAction(Action):
    """What is done to one problem, on its page."""

    kind = KIND
    takes = ("slug",)
    pages = ("problem-detail",)

    def locate(self, where: Mapping[str, Any]) -> Problem:
        return problem_at(where["slug"])

    def home(self, target: Problem) -> str:
        return reverse("problem-detail", args=[target.slug])


class VersionForm(ActionForm):
    file = forms.FileField(
        label=_("Python file"),
        allow_empty_file=True,
        help_text=_("Name, and text or base64, of the whole module."),
        error_messages={"required": NO_FILE},
    )


@register
class AddVersion(ProblemAction):
    """Store a text as the next version of the problem. Searches and speedups of earlier versions stay with them."""

    name, label, done = "problem.version", _("Upload a new version"), _("Uploaded a new version")
    Form, route, path = VersionForm, "problem-version", "problems/<slug:slug>/version"
    own_words = True

    def run(self, target: Problem, data: dict[str, Any], call: Call) -> Result:
        sent: UploadedFile[bytes] = data["file"]
        try:
            check_size(sent)
            row = version_add(problem=target, data=sent.read(), **call.who)
        except ProblemRejected as error:
            raise Rejected(error) from error
        message = gettext("Version %(version)d is stored. Lists and start forms offer it from now on.")
        return Result(message % {"version": row.version}, location=self.home(row), target=row)

    def again(self, entry: AuditEntry) -> Result:
        return Result(location=reverse("problem-detail", args=[entry.after["slug"]]))

    def describe(self, entry: AuditEntry, loaded: Problems) -> str:
        return gettext("Uploaded version %(version)s") % {"version": entry.after.get("version", "")}

    def standing(self, entry: AuditEntry, loaded: Problems) -> Standing:
        row = loaded.get(entry.object_id)
        if row is None:
            return Standing(why_not=gettext("deleted"))
        if row.superseded:
            return REPLACED
        return Standing(why_not=gettext("a search uses it")) if row.runs.exists() else UNDO

    def undo(self, entry: AuditEntry, call: Call) -> Result:
        row: Problem = self.kind.find(entry)
        problem_delete(problem=row, **call.who)
        return Result(
            gettext("Version %(version)d is deleted.") % {"version": row.version},
            location=reverse("problem-detail", args=[entry.after["of"]]),
        )


class Shelve(ProblemAction):
    """Archive and list again: each takes the other back. Pages, searches and kernels stay."""

    route, path = "problem-archive", "problems/<slug:slug>/archive"
    archives: bool
    message: StrOrPromise

    def run(self, target: Problem, data: dict[str, Any], call: Call) -> Result:
        problem_archive(problem=target, archived=self.archives, **call.who)
        return Result(self.message)

    def standing(self, entry: AuditEntry, loaded: Problems) -> Standing:
        if entry.object_id not in loaded:
            return Standing(why_not=gettext("deleted"))
        archived = loaded[entry.object_id].archived_at is not None
        return UNDO if archived == self.archives else CHANGED


@register
class ArchiveProblem(Shelve):
    """Take a problem with all its versions out of lists and start forms. Nothing else changes."""

    name, label, done = ARCHIVE, _("Archive the problem"), _("Archived")
    sends, inverse = {"archived": "1"}, UNARCHIVE
    archives, message = True, _("The problem is archived. The filter “Archived” of the list shows it.")


@register
class ListProblem(Shelve):
    """Offer an archived problem again."""

    name, label, done = UNARCHIVE, _("Unarchive the problem"), _("Unarchived")
    sends, inverse = {"archived": ""}, ARCHIVE
    archives, message = False, _("The problem is no longer archived.")


@register
class DeleteProblem(ProblemAction):
    """Delete a problem that no search uses, with the verdicts on it. Its address says who deleted it."""

    name, label, done = "problem.delete", _("Delete the problem"), _("Deleted")
    role, removes = Role.ADMIN, True
    route, path = "problem-delete", "problems/<slug:slug>/delete"
    irreversible = _("upload its file again")

    def question(self, target: Problem, data: Mapping[str, Any]) -> Question:
        found = deletion_of(target, timezone.now())
        return Question(
            ask=gettext("Delete “%(title)s”?") % {"title": target.title},
            what=found.text,
            yes=_("Delete the problem"),
            back=self.home(target),
            keeps=_("The entries in the activity log are kept."),
            why_not=found.why_not,
        )

    def run(self, target: Problem, data: dict[str, Any], call: Call) -> Result:
        problem_delete(problem=target, **call.who)
        return Result(gettext("“%(title)s” is deleted.") % {"title": target.title}, location=reverse("problem-list"))

    def again(self, entry: AuditEntry) -> Result:
        return Result(location=reverse("problem-list"))

    def detail(self, entry: AuditEntry, loaded: Problems) -> str:
        verdicts = int(entry.before.get("verdicts", 0))
        text = ngettext("%(title)s with %(count)d verdict", "%(title)s with %(count)d verdicts", verdicts)
        return text % {"title": entry.before.get("title", ""), "count": verdicts}


@register
class OpenSealed(ProblemAction):
    """Show the sealed cases once. They count as known from then on, and others are derived in their place."""

    name, label, done = "problem.unseal", _("Open the sealed cases"), _("Opened the sealed cases")
    role = Role.ADMIN
    route, path = "problem-unseal", "problems/<slug:slug>/unseal"
    irreversible = _("what was seen is known")

    def question(self, target: Problem, data: Mapping[str, Any]) -> Question:
        return Question(
            ask=_("Open the sealed cases?"),
            what=_(
                "They are shown once, on the next page. From then on the set counts as opened: verdicts that were "
                "audited with it say so, and other cases are derived and sealed in its place."
            ),
            yes=_("Open them once"),
            back=self.home(target),
            keeps=_("The activity log says who opened them, and when."),
            why_not=() if sets_to_open(target) else (_("There are no sealed cases that nobody has opened."),),
        )

    def run(self, target: Problem, data: dict[str, Any], call: Call) -> Result:
        opened = sealed_open(problem=target, **call.who)
        cases = json.dumps([{"set": one.number, "case": one.case, "cases": case_rows(one)} for one in opened])
        message = ngettext("%(count)d set is opened.", "%(count)d sets are opened.", len(opened))
        return Result(
            message % {"count": len(opened)}, shown_once={"cases": cases}, then=partial(sealing_start, target)
        )

    def again(self, entry: AuditEntry) -> Result:
        """The contents were in the first answer alone."""
        return Result(location=super().again(entry).location)

    def detail(self, entry: AuditEntry, loaded: Problems) -> str:
        return gettext("sets %(numbers)s") % {"numbers": ", ".join(map(str, entry.after.get("sets", [])))}

    def panel(self, request: SiteRequest, target: Problem, **context: Any) -> HttpResponse | None:
        """The page that shows them; it is in no cache and cannot be asked for again."""
        if "cases" not in context:
            return None
        facts = {"problem": target, "sets": json.loads(context["cases"])}
        answer = render(request, "problems/sealed_opened.html", facts)
        add_never_cache_headers(answer)
        return answer
