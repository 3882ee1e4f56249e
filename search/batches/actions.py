"""Actions on many searches as one unit: campaigns, adapt runs, and the budget of all searches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from django.db.models import Max
from django.urls import reverse
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from adaexplore_site.actions.action import (
    CHANGED,
    REPLACED,
    UNDO,
    UNDONE,
    Action,
    Call,
    Kind,
    Question,
    Recorded,
    Result,
    Standing,
    Subject,
    missing,
)
from adaexplore_site.actions.registry import register
from adaexplore_site.core.audit import ActionRefused
from adaexplore_site.core.models import AuditEntry
from memory.adapt.models import AdaptRun, Batch
from memory.prompting.choices import MemoryChoice
from search.batches import budgets
from search.batches.adapts import ADAPTS, AdaptPlan, adapt_start, transfer_start
from search.batches.campaigns import CAMPAIGNS, campaign_start
from search.batches.engine import Source
from search.batches.views import AdaptForm, CampaignForm, TransferForm
from search.ledger.forms import BudgetForm
from search.ledger.spending import budget_now
from search.records.queue import send

if TYPE_CHECKING:
    from django_stubs_ext import StrOrPromise


@dataclass(frozen=True)
class Loaded:
    """Batches by number, and of each the last entry that paused or resumed it."""

    rows: Mapping[int, Batch]
    turns: frozenset[int]


class BatchKind(Kind):
    """Many searches that are started, paused, resumed and stopped as one."""

    source: ClassVar[Source]

    def load(self, entries: Sequence[AuditEntry]) -> Loaded:
        ids = {entry.object_id for entry in entries}
        verbs = (f"{self.name}.pause", f"{self.name}.resume")
        turns = AuditEntry.objects.filter(object_type=self.name, object_id__in=ids, verb__in=verbs).order_by()
        last = turns.values("object_id").annotate(last=Max("pk")).values_list("last", flat=True)
        return Loaded(self.source.rows.objects.in_bulk({int(one) for one in ids}), frozenset(last))

    def subject(self, entry: AuditEntry, loaded: Loaded) -> Subject | None:
        row = loaded.rows.get(int(entry.object_id))
        return None if row is None else Subject(str(self.source.noun), row.title, self.url(row))

    def find(self, entry: AuditEntry) -> Any:
        row = self.get(int(entry.object_id))
        if row is None:
            raise ActionRefused(gettext("The %(noun)s no longer exists.") % {"noun": self.source.noun})
        return row

    def now(self, target: Batch) -> dict[str, Any]:
        return {"state": target.state, **super().now(target)}

    def get(self, pk: int) -> Any:
        """The row, with its device; None when it is gone."""
        return self.source.rows.objects.select_related("device").filter(pk=pk).first()

    def url(self, row: Batch) -> str:
        """Its page."""
        return reverse(f"{self.name}-detail", args=[row.pk])


class CampaignKind(BatchKind):
    source, name = CAMPAIGNS, "campaign"


class AdaptKind(BatchKind):
    source, name, noun, aliases = ADAPTS, "adapt", "adapt run", ("adapt",)


CAMPAIGN, ADAPT = CampaignKind(), AdaptKind()


class StartBatch(Action):
    """Create a batch and send its first searches."""

    kind: ClassVar[BatchKind]
    irreversible = _("stop it on its page")

    def run(self, target: Any, data: dict[str, Any], call: Call) -> Result:
        batch = self.create(target, data, call)
        return Result(then=lambda: send(self.kind.source.advance(batch.pk)), location=self.kind.url(batch))

    def create(self, target: Any, data: dict[str, Any], call: Call) -> Any:
        """The new row. Raises ActionRefused."""
        raise NotImplementedError


class BatchAction(Action):
    """What is done to one batch."""

    kind: ClassVar[BatchKind]

    def locate(self, where: Mapping[str, Any]) -> Any:
        row = self.kind.get(where[self.takes[0]])
        if row is None:
            raise missing(f"such {self.kind.source.noun}")
        return row

    def home(self, target: Batch) -> str:
        return self.kind.url(target)


class Turn(BatchAction):
    """Pause or resume: the newest one can be undone until the batch has ended."""

    state: ClassVar[str]  # that it leads to
    back: ClassVar[StrOrPromise]  # label of the button that takes it back

    def standing(self, entry: AuditEntry, loaded: Loaded) -> Standing:
        row = loaded.rows.get(int(entry.object_id))
        if row is None or row.ended:
            return Standing(why_not=_("it has ended"))
        return Standing(self.back) if entry.pk in loaded.turns and row.state == self.state else REPLACED


class Pause(Turn):
    """Start no more searches and pause those that run."""

    done, state, back = _("Paused"), "paused", _("Resume")

    def run(self, target: Batch, data: dict[str, Any], call: Call) -> Result:
        self.kind.source.pause(target, **call.who)
        return Result(gettext("Paused. Steps in flight end first."))


class Resume(Turn):
    """Go on, with the searches that the pause had paused."""

    done, state, back = _("Resumed"), "running", _("Pause")

    def run(self, target: Batch, data: dict[str, Any], call: Call) -> Result:
        source = self.kind.source
        row = source.resume(target, **call.who)
        return Result(gettext("Resumed."), then=lambda: send([*source.follow_ups(row), *source.advance(row.pk)]))


class Stop(BatchAction):
    """Stop its searches and start no others."""

    done = _("Stopped")
    irreversible = _("a stopped batch can't be resumed")
    kept: ClassVar[StrOrPromise]  # what stays, as a sentence

    def run(self, target: Batch, data: dict[str, Any], call: Call) -> Result:
        self.kind.source.stop(target, **call.who)
        return Result(gettext("Stopped. Steps in flight end first."))

    def question(self, target: Batch, data: Mapping[str, Any]) -> Question:
        what = gettext("Its searches are stopped and no others start. %(kept)s This can't be undone; a pause can.")
        title = gettext("Stop this %(noun)s?") % {"noun": self.kind.source.noun}
        return Question(title, what % {"kept": self.kept}, str(self.label), self.home(target))


def _register_switches(kind: BatchKind, address: str, labels: Mapping[str, StrOrPromise], kept: StrOrPromise) -> None:
    """Pause, resume and stop of one kind of batch."""
    for base, inverse in ((Pause, f"{kind.name}.resume"), (Resume, f"{kind.name}.pause"), (Stop, "")):
        verb = base.__name__.lower()
        parts = {
            "__doc__": base.__doc__,
            "kind": kind,
            "name": f"{kind.name}.{verb}",
            "label": labels[verb],
            "takes": (f"{kind.name}_id",),
            "pages": (f"{kind.name}-detail",),
            "route": f"{kind.name}-{verb}",
            "path": f"{address}/<int:{kind.name}_id>/{verb}",
            "inverse": inverse,
            "kept": kept,
        }
        register(type(f"{base.__name__}{kind.name.capitalize()}", (base,), parts))


@register
class StartCampaign(StartBatch):
    """Search many problems under one budget of steps."""

    kind = CAMPAIGN
    name, label, done = "campaign.start", _("Start the campaign"), _("Started")
    Form = CampaignForm
    pages, route = ("campaign-new",), "campaign-new"

    def create(self, target: Any, data: dict[str, Any], call: Call) -> Any:
        names = ("device", "proposer", "steps", "title", "seed", "seeds", "at_once", "concurrency", "memory")
        given = {name: data[name] for name in names}
        return campaign_start(problems=data["problem"], params=data["preset"].params.to_json(), **given, **call.who)


_register_switches(
    CAMPAIGN,
    "campaigns",
    {"pause": _("Pause the campaign"), "resume": _("Resume the campaign"), "stop": _("Stop the campaign")},
    _("What was found is kept."),
)


@register
class StartAdapt(StartBatch):
    """Compose tasks, search them one after the other and learn from what fails."""

    kind = ADAPT
    name, label, done = "adapt.start", _("Start the adapt run"), _("Started")
    Form = AdaptForm
    pages, route = ("adapt-new",), "adapt-new"

    def create(self, target: Any, data: dict[str, Any], call: Call) -> Any:
        names = ("device", "proposer", "tasks", "steps", "control_steps", "seed", "composer", "at_once", "concurrency")
        plan = AdaptPlan(
            **{name: data[name] for name in (*names, "title", "limits")},
            params=data["preset"].params.to_json(),
            memory=MemoryChoice(uses=True, learns=True, trust=data["trust"], threshold=data["threshold"]),
        )
        return adapt_start(plan=plan, **call.who)


@register
class TransferAdapt(StartBatch, BatchAction):
    """Search given problems with and without the rules that an adapt run has learned."""

    kind = ADAPT
    name, label, verb = "adapt.transfer", _("Search with and without what was learned"), "adapt.start"
    Form = TransferForm
    takes, pages = ("adapt_id",), ("adapt-detail",)
    route, path = "adapt-transfer", "adapt/<int:adapt_id>/transfer"

    def create(self, target: AdaptRun, data: dict[str, Any], call: Call) -> Any:
        plan = AdaptPlan(
            device=target.device,
            proposer=target.proposer,
            steps=data["steps"],
            seed=target.seed,
            at_once=target.at_once,
            concurrency=target.concurrency,
            params=target.params,
            options=target.proposer_options,
            memory=MemoryChoice.from_json(target.memory),
        )
        return transfer_start(learned_by=target, problems=data["problem"], plan=plan, **call.who)


_register_switches(
    ADAPT,
    "adapt",
    {"pause": _("Pause the adapt run"), "resume": _("Resume the adapt run"), "stop": _("Stop the adapt run")},
    _("What was learned is kept."),
)


@dataclass(frozen=True)
class BudgetFacts:
    """The budget that holds, as the audit log keeps it, and the entries of pauses that were undone."""

    fields: Mapping[str, Any]
    undone: frozenset[int]


class BudgetKind(Kind):
    """The budget of all searches together. There is one, whichever row holds."""

    name = "budget"

    def load(self, entries: Sequence[AuditEntry]) -> BudgetFacts:
        undos = AuditEntry.objects.filter(object_type=self.name, verb=budgets.PAUSE_UNDO).order_by()
        undone = frozenset(after["undoes"] for after in undos.values_list("after", flat=True))
        return BudgetFacts(budgets.budget_fields(budget_now()), undone)

    def subject(self, entry: AuditEntry, loaded: BudgetFacts) -> Subject:
        return Subject("budget", gettext("budget of all searches"), reverse("spend"))


BUDGET = BudgetKind()


@register
class SetBudget(Action):
    """Set the budget of a day and of a month, the alert, and whether exceeding it pauses searches that cost money."""

    kind = BUDGET
    name, label, done = budgets.SET, _("Set the budget of all searches"), _("Set")
    Form = BudgetForm
    pages, route, path = ("spend",), "spend-budget", "spend/budget"

    def run(self, target: None, data: dict[str, Any], call: Call) -> Result:
        row = budgets.budget_set(**data, **call.who)
        return Result(gettext("The budget is set.") if row is not None else gettext("This is the budget already."))

    def home(self, target: None) -> str:
        return reverse("spend")

    def standing(self, entry: AuditEntry, loaded: BudgetFacts) -> Standing:
        return UNDO if loaded.fields == entry.after else CHANGED

    def undo(self, entry: AuditEntry, call: Call) -> Result:
        budgets.budget_undo(before=entry.before, **call.who)
        return Result()


@register
class BudgetAlert(Recorded):
    """Spending has reached the alert or has passed the budget."""

    kind = BUDGET
    name = budgets.ALERT
    irreversible = _("an alert changes nothing")

    def describe(self, entry: AuditEntry, loaded: BudgetFacts) -> str:
        return gettext("Budget exceeded") if entry.after.get("passed") else gettext("Budget alert")

    def detail(self, entry: AuditEntry, loaded: BudgetFacts) -> str:
        return str(entry.after.get("reason", ""))


@register
class BudgetPause(Recorded):
    """The budget was exceeded: what costs money was paused."""

    kind = BUDGET
    name, done = budgets.PAUSE, _("Budget exceeded: paid searches were paused")

    def standing(self, entry: AuditEntry, loaded: BudgetFacts) -> Standing:
        return UNDONE if entry.pk in loaded.undone else Standing(_("Resume what was paused"))

    def undo(self, entry: AuditEntry, call: Call) -> Result:
        follow_ups = budgets.budget_pause_undo(action=entry, **call.who)
        return Result(then=lambda: send(follow_ups))


@register
class BudgetPauseUndo(Recorded):
    """What the budget had paused was resumed."""

    kind = BUDGET
    name, done = budgets.PAUSE_UNDO, _("Resumed what the budget had paused")
    irreversible = _("it is an undo itself")
