"""Actions on searches: start, pause, resume, stop, archive, remove."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

from django import forms
from django.core.exceptions import NON_FIELD_ERRORS
from django.db.models import Max
from django.http import QueryDict
from django.urls import reverse
from django.utils import timezone
from django.utils.datastructures import MultiValueDict
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from adaexplore_site.actions.action import CHANGED, REPLACED, UNDO, Action, Call, Question, Result, Standing
from adaexplore_site.actions.registry import register
from adaexplore_site.core.audit import ActionRefused, FieldsRefused
from adaexplore_site.core.models import AuditEntry
from judge.devices.models import Device
from judge.devices.services import search_devices
from judge.evaluations.models import PROTOCOL_ELSEWHERE, Evaluation
from judge.problems.preflight import Preflight, preflight
from judge.problems.views import preflight_start
from memory.rules.services import rules_locked
from search.ledger.forms import RENAMED
from search.proposers import available
from search.records.kinds import ENDED, GONE, RUN, RunEntries, action_record
from search.records.models import Run
from search.records.queue import FollowUp, sent
from search.runs.forms import StartForm
from search.runs.removal import removal_of, removal_text
from search.runs.services import run_held, run_pause, run_resume, run_start, run_stop

if TYPE_CHECKING:
    from django_stubs_ext import StrOrPromise

ARCHIVE, UNARCHIVE = "run.archive", "run.unarchive"
STATES = ("run.pause", "run.resume", "run.stop", "run.kill")
PREFLIGHT = _("The preflight must pass first. It is running now.")


@register
class StartRun(Action):
    """Start a search. The problem's preflight on the device has to pass first; where there was none it is started."""

    kind = RUN
    name, label, done = "run.start", _("Start the search"), _("Started the search")
    pages = ("run-new",)
    route = "run-new"
    Form = StartForm
    irreversible = _("stop it on its page")

    def form(self, target: None, data: QueryDict, files: MultiValueDict[str, Any]) -> forms.Form:
        return StartForm(data, devices=list(search_devices()), choices=available())

    def run(self, target: None, data: dict[str, Any], call: Call) -> Result:
        problem, device = data["problem"], data["device"]
        if problem.archived_at is not None:
            raise FieldsRefused({NON_FIELD_ERRORS: _("This problem is archived. Unarchive it on its page first.")})
        check = preflight(problem, device, now=timezone.now())
        if not check.barred and (check.state == "new" or check.stalled):
            return Result(pending=PREFLIGHT, then=partial(preflight_start, problem, device))
        if check.unfinished:
            return Result(pending=PREFLIGHT)
        run = self._start(check, data, call)
        return sent("", [FollowUp("advance", run.pk)], reverse("run-detail", args=[run.pk]))

    def _start(self, check: Preflight, data: dict[str, Any], call: Call) -> Run:
        if not check.usable:
            failed = gettext("The preflight on %(device)s did not pass. Check again.") % {"device": check.device.name}
            raise FieldsRefused({NON_FIELD_ERRORS: check.why_not or failed})
        same = ("problem", "device", "proposer", "steps", "seed", "title", "limits", "memory")
        given = {name: data[name] for name in same}
        given |= {"params": data["preset"].params.to_json(), "concurrency": data["concurrency"] or 1}
        try:
            return run_start(**given, **call.who)
        except FieldsRefused as error:
            fields = {RENAMED.get(name, name): text for name, text in error.fields.items()}
            raise FieldsRefused(fields) from error


class RunAction(Action):
    """What is done to a search as a whole, on its page."""

    kind = RUN
    takes = ("run_id",)
    pages: ClassVar[tuple[str, ...]] = ("run-detail",)

    def again(self, entry: AuditEntry) -> Result:
        """The page that asked, as after the first call."""
        return Result()

    def home(self, target: Run) -> str:
        return reverse("run-detail", args=[target.pk])


def _newest(loaded: RunEntries, verbs: tuple[str, ...]) -> set[int]:
    """The last entry with one of these verbs on each search."""
    keys = [str(pk) for pk in loaded.runs]
    rows = AuditEntry.objects.filter(object_type=RUN.name, object_id__in=keys, verb__in=verbs).order_by()
    return set(rows.values("object_id").annotate(last=Max("pk")).values_list("last", flat=True))


class StateAction(RunAction):
    """What decides whether a search goes on. The last one can be undone while the search is still in `states`."""

    states: tuple[Run.State, ...]
    back: StrOrPromise

    def standing(self, entry: AuditEntry, loaded: RunEntries) -> Standing:
        run = loaded.run(entry)
        if run is None:
            return GONE
        if entry.pk not in loaded.once("states", partial(_newest, verbs=STATES)):
            return REPLACED
        if run.state in self.states:
            return Standing(self.back)
        return ENDED if run.ended else CHANGED


@register
class PauseRun(StateAction):
    """Start no new steps. Those in flight end."""

    name, label, done = "run.pause", _("Pause the search"), _("Paused the search")
    route, path = "run-pause", "s/<int:run_id>/pause"
    inverse = "run.resume"
    states, back = (Run.State.PAUSED,), _("Resume")

    def run(self, target: Run, data: dict[str, Any], call: Call) -> Result:
        run_pause(run=target, **call.who)
        return Result(gettext("Paused. Steps in flight end first."))


@register
class ResumeRun(StateAction):
    """Go on with a paused or stopped search. Steps that a stop withdrew stay withdrawn."""

    name, label, done = "run.resume", _("Resume the search"), _("Resumed the search")
    route, path = "run-resume", "s/<int:run_id>/resume"
    inverse = "run.pause"
    states, back = (Run.State.RUNNING,), _("Pause")

    def run(self, target: Run, data: dict[str, Any], call: Call) -> Result:
        run_resume(run=target, **call.who)
        return sent(gettext("Resumed."), [FollowUp("advance", target.pk)])


@register
class StopRun(StateAction):
    """End a search and keep its tree. Kernels on the device are judged first."""

    name, label, done = "run.stop", _("Stop the search"), _("Stopped the search")
    route, path = "run-stop", "s/<int:run_id>/stop"
    sends = {"now": ""}
    inverse = "run.resume"
    states, back = (Run.State.STOPPING, Run.State.STOPPED), _("Resume")

    def run(self, target: Run, data: dict[str, Any], call: Call) -> Result:
        run_stop(run=target, **call.who)
        return Result(gettext("Stopping. The tree is kept."))


@register
class KillRun(StateAction):
    """End a search at once. Everything in flight is withdrawn, and the tree is kept."""

    name, label, done = "run.kill", _("Stop the search at once"), _("Stopped the search at once")
    route, path = "run-stop", "s/<int:run_id>/stop"
    sends = {"now": "1"}
    inverse = "run.resume"
    states, back = (Run.State.STOPPED,), _("Resume")

    def run(self, target: Run, data: dict[str, Any], call: Call) -> Result:
        run_stop(run=target, drain=False, **call.who)
        return Result(gettext("Stopped. The tree is kept."))


class Shelve(RunAction):
    """Archive and list again: each takes the other back. Pages, kernels and failures of the search stay."""

    route, path = "run-archive", "s/<int:run_id>/archive"
    archives: bool
    message: StrOrPromise

    def run(self, target: Run, data: dict[str, Any], call: Call) -> Result:
        run = run_held(target)
        if (run.archived_at is not None) != self.archives:
            if self.archives and not run.ended:
                raise ActionRefused(
                    gettext("This search is %(state)s. Stop it first: only ended searches are archived.")
                    % {"state": run.state}
                )
            run.archived_at = timezone.now() if self.archives else None
            run.save(update_fields=["archived_at"])
            was, now = {"archived": not self.archives}, {"archived": self.archives}
            action_record(verb=self.name, run=run, **call.who, before=was, after=now)
        return Result(self.message % {"number": target.pk})

    def home(self, target: Run) -> str:
        return reverse("run-list")

    def standing(self, entry: AuditEntry, loaded: RunEntries) -> Standing:
        if loaded.run(entry) is None:
            return GONE
        return UNDO if entry.pk in loaded.once("shelf", partial(_newest, verbs=(ARCHIVE, UNARCHIVE))) else REPLACED


@register
class ArchiveRun(Shelve):
    """Take an ended search out of the lists. Nothing else changes."""

    name, label, done = ARCHIVE, _("Archive the search"), _("Archived the search")
    sends = {"archived": "1"}
    inverse = UNARCHIVE
    archives, message = True, _("Search %(number)d is archived. It is in the tab Archived.")


@register
class ListRun(Shelve):
    """List an archived search again."""

    name, label, done = UNARCHIVE, _("Unarchive the search"), _("Unarchived the search")
    sends = {"archived": ""}
    inverse = ARCHIVE
    archives, message = False, _("Search %(number)d is no longer archived.")


@register
class RemoveRun(RunAction):
    """Remove an imported search with its nodes, verdicts, events and failures. Its problem stays."""

    name, label, done = "run.remove", _("Remove the imported search"), _("Removed the imported search")
    pages = ()
    removes, must_confirm = True, False
    route, path = "run-remove", "s/<int:run_id>/remove"
    irreversible = _("import its file again")

    def question(self, target: Run, data: Mapping[str, Any]) -> Question:
        found = removal_of(target)
        return Question(
            ask=_("Remove this imported search?"),
            what=found.text,
            yes=gettext("Remove search %(number)d") % {"number": target.pk},
            back=self.home(target),
            keeps=_(
                "The problem, other searches on it, and the entries in the activity log are kept. Import the file "
                "again to restore the search under a new number."
            ),
            why_not=found.why_not,
        )

    def run(self, target: Run, data: dict[str, Any], call: Call) -> Result:
        """Its actions stay in the activity log, and importing its file brings it back."""
        activity = reverse("run-activity", args=[target.pk])
        with rules_locked():  # no rule may take one of its failures as evidence meanwhile
            run = run_held(target)
            found = removal_of(run)
            if found.why_not:
                raise ActionRefused(" ".join(found.why_not))
            gone = {"title": run.title or run.problem.title, "problem": run.problem.slug, **found.counts}
            gone["file"] = str(run.imported.get("file", ""))
            action_record(verb=self.name, run=run, **call.who, before=gone)
            _delete(run)
        return Result(gettext("The search is removed."), location=activity)

    def detail(self, entry: AuditEntry, loaded: RunEntries) -> str:
        return removal_text(entry.before)


def _delete(run: Run) -> None:
    """The search with all that hangs on it, its verdicts, and its device when no other search named it."""
    problem_id = run.problem_id
    run.delete()
    device = Device.objects.select_for_update().get(pk=run.device_id)  # who imports onto it has it locked, too
    verdicts = Evaluation.objects.filter(problem=problem_id, device=device, protocol=PROTOCOL_ELSEWHERE)
    verdicts.filter(nodes=None).delete()
    named = Evaluation.objects.filter(device=device).exists() or Run.objects.filter(device=device).exists()
    if device.imported and not named:
        device.delete()
