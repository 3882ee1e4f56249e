"""Actions on one evaluation: look for races and stray accesses, and stop that."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

from django.db.models import QuerySet
from django.urls import reverse
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _
from kombu.exceptions import OperationalError

from adaexplore_site.actions.action import Action, Call, Kind, Result, Subject
from adaexplore_site.actions.registry import register
from adaexplore_site.core.audit import ActionRefused, action_on
from adaexplore_site.core.models import AuditEntry
from judge.evaluations.models import Evaluation, SanitizerCheck
from judge.evaluations.sanitizing import check_queue, check_stop
from judge.tasks import sanitize_evaluation

log = logging.getLogger(__name__)
AWAY = _("The message broker is not available, so the check was not queued. Try again later.")


class Evaluations(Kind):
    name, noun = "evaluation", _("evaluation")

    def objects(self) -> QuerySet[Any]:
        return Evaluation.objects.select_related("device", "problem")

    def load(self, entries: Sequence[AuditEntry]) -> set[str]:
        """Which of them are still there."""
        wanted = [entry.object_id for entry in entries if entry.object_type == self.name]
        return {str(pk) for pk in Evaluation.objects.filter(pk__in=wanted).values_list("pk", flat=True)}

    def subject(self, entry: AuditEntry, loaded: set[str]) -> Subject | None:
        if entry.object_id not in loaded:
            return None
        return Subject(self.noun, entry.object_id, reverse("evaluation-detail", args=[entry.object_id]))


class EvaluationAction(Action):
    """Something done to one evaluation, on its page."""

    kind = Evaluations()
    takes = ("evaluation_id",)
    pages = ("evaluation-detail",)

    def home(self, target: Evaluation) -> str:
        return reverse("evaluation-detail", args=[target.pk])


@register
class SanitizeEvaluation(EvaluationAction):
    """Run the kernel once more under compute-sanitizer, which sees races and stray accesses. The verdict stays."""

    name, label = "evaluation.sanitize", _("Check for races and stray accesses")
    done = _("Asked for a check for races and stray accesses")
    route, path = "evaluation-sanitize", "evaluations/<int:evaluation_id>/sanitize"
    own_words = True
    irreversible = _("a check changes no verdict")

    def run(self, target: Evaluation, data: dict[str, Any], call: Call) -> Result:
        check = check_queue(evaluation=target, user=call.user)
        if check is None:
            return Result(gettext("A check of this kernel is already queued or running."))
        action_on(verb=self.name, on=("evaluation", target.pk), **call.who, after={"check": check.pk})
        queued = gettext("The check is queued on %(device)s. Its result will be shown here.")
        return Result(queued % {"device": target.device.name}, then=lambda: _send(check))


@register
class StopSanitizing(EvaluationAction):
    """Stop the check for races and stray accesses, whether it waits or runs."""

    name, label = "evaluation.sanitize.stop", _("Stop the check")
    done = _("Stopped a check for races and stray accesses")
    route, path = "evaluation-sanitize-stop", "evaluations/<int:evaluation_id>/sanitize/stop"
    irreversible = _("ask for another check")

    def run(self, target: Evaluation, data: dict[str, Any], call: Call) -> Result:
        check = check_stop(evaluation=target, user=call.user)
        action_on(verb=self.name, on=("evaluation", target.pk), **call.who, after={"check": check.pk})
        return Result(gettext("The check was stopped."))


def _send(check: SanitizerCheck) -> None:
    """Raises ActionRefused when no worker can be reached; the row says so."""
    device = check.evaluation.device
    try:
        sanitize_evaluation.apply_async(args=[check.pk], queue=device.queue, retry=False)
    except OperationalError as error:
        log.warning("the check of evaluation %s is not sent: the broker is away (%s)", check.evaluation_id, error)
        SanitizerCheck.objects.filter(pk=check.pk).update(state=SanitizerCheck.State.FAILED, message=str(AWAY))
        raise ActionRefused(str(AWAY)) from error
