"""Quarantine a problem and release it: what its searches have for a device waits meanwhile."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from django.urls import reverse
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from adaexplore_site.actions.action import CHANGED, UNDO, Action, Call, Result, Standing, missing
from adaexplore_site.actions.registry import register
from adaexplore_site.core.models import AuditEntry
from judge.problems.kind import KIND, Problems
from judge.problems.models import Problem
from judge.problems.quarantine import QUARANTINE, RELEASE
from search.engine.problems import problem_quarantine, problem_release
from search.fleet.actions import ReasonForm


class ProblemState(Action):
    """Puts a problem into quarantine or takes it out."""

    kind = KIND
    takes = ("slug",)
    pages = ("problem-detail",)
    route, path = "problem-state", "problems/<slug:slug>/state"
    quarantined: ClassVar[bool]

    def locate(self, where: Mapping[str, Any]) -> Problem:
        row = Problem.objects.defer("source", "admission").filter(slug=where["slug"]).first()
        if row is None:
            raise missing("such problem")
        return row

    def again(self, entry: AuditEntry) -> Result:
        """The page that asked, as after the first call."""
        return Result()

    def home(self, target: Problem) -> str:
        return reverse("problem-detail", args=[target.slug])

    def detail(self, entry: AuditEntry, loaded: Problems) -> str:
        return str(entry.after.get("reason", ""))

    def standing(self, entry: AuditEntry, loaded: Problems) -> Standing:
        row = loaded.get(entry.object_id)
        if row is None:
            return Standing(why_not=gettext("the problem no longer exists"))
        return UNDO if row.quarantined == self.quarantined else CHANGED


@register
class QuarantineProblem(ProblemState):
    """Run nothing of a problem until it is released. Its searches wait."""

    name, label, done = QUARANTINE, _("Quarantine the problem"), _("Quarantined")
    sends, inverse, quarantined = {"state": "quarantined"}, RELEASE, True
    Form = ReasonForm

    def run(self, target: Problem, data: dict[str, Any], call: Call) -> Result:
        by = f"By {call.user.get_username()}." if call.user else ""
        problem_quarantine(problem=target, reason=data.get("reason") or by, **call.who)
        return Result(gettext("Quarantined: nothing of the problem is judged until it is released."))


@register
class ReleaseProblem(ProblemState):
    """Let a problem be judged again. What waited for its devices goes on."""

    name, label, done = RELEASE, _("Release the problem"), _("Released")
    sends, inverse, quarantined = {"state": "released"}, QUARANTINE, False

    def run(self, target: Problem, data: dict[str, Any], call: Call) -> Result:
        problem_release(problem=target, **call.who)
        return Result(gettext("Released: the problem is judged again."))

    def undo(self, entry: AuditEntry, call: Call) -> Result:
        """Back into quarantine, for the reason that it had."""
        problem_quarantine(problem=KIND.find(entry), reason=str(entry.before.get("reason", "")), **call.who)
        return Result(gettext("Undone."))
