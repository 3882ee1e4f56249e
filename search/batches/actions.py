"""Actions on many searches as one unit: campaigns, adapt runs, and the budget of all searches."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from django import forms
from django.db.models import Max
from django.http import QueryDict
from django.urls import reverse
from django.utils.datastructures import MultiValueDict

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
from memory.adapt.models import AdaptRun
from memory.prompting.choices import MemoryChoice
from search.batches import adapt_runs, campaigns, site_budget
from search.batches.adapt_advance import adapt_advance
from search.batches.adapt_form import AdaptForm, TransferForm, adapt_form
from search.batches.campaign_advance import campaign_advance
from search.batches.campaign_form import CampaignForm, campaign_form
from search.batches.models import Campaign
from search.ledger.forms import BudgetForm
from search.ledger.spending import budget_now
from search.records.follow_ups import Hop
from search.records.queue import send

BY_ITS_PAGE = "stop it on its page"


@dataclass(frozen=True)
class Batches:
    """Rows by number, and of each the last entry that paused or resumed it."""

    rows: Mapping[int, Campaign | AdaptRun]
    turns: frozenset[int]


class BatchKind(Kind):
    """Many searches that are started, paused, resumed and stopped as one."""

    rows: ClassVar[type[Campaign] | type[AdaptRun]]
    page: ClassVar[str]  # route

    def load(self, entries: Sequence[AuditEntry]) -> Batches:
        ids = {entry.object_id for entry in entries}
        verbs = (f"{self.name}.pause", f"{self.name}.resume")
        turns = AuditEntry.objects.filter(object_type=self.name, object_id__in=ids, verb__in=verbs).order_by()
        last = turns.values("object_id").annotate(last=Max("pk")).values_list("last", flat=True)
        rows: Any = self.rows
        return Batches(rows.objects.in_bulk({int(one) for one in ids}), frozenset(last))

    def subject(self, entry: AuditEntry, loaded: Batches) -> Subject | None:
        row = loaded.rows.get(int(entry.object_id))
        return None if row is None else Subject(self.noun or self.name, row.title, self.url(row))

    def find(self, entry: AuditEntry) -> Campaign | AdaptRun:
        row = self.get(int(entry.object_id))
        if row is None:
            raise ActionRefused(f"The {self.noun or self.name} is gone.")
        return row

    def now(self, target: Campaign | AdaptRun) -> dict[str, Any]:
        return {"state": target.state, **super().now(target)}

    def get(self, pk: int) -> Campaign | AdaptRun | None:
        """The row, with its device."""
        rows: Any = self.rows
        return rows.objects.select_related("device").filter(pk=pk).first()  # type: ignore[no-any-return]

    def url(self, row: Campaign | AdaptRun) -> str:
        """Its page."""
        return reverse(self.page, args=[row.pk])

    def resumed(self, row: Any) -> list[Hop]:
        """What to send so that its searches go on and the next ones start."""
        raise NotImplementedError


class CampaignKind(BatchKind):
    name = "campaign"
    rows, page = Campaign, "campaign-detail"

    def resumed(self, row: Campaign) -> list[Hop]:
        return [*campaigns.campaign_hops(row), *campaign_advance(campaign_id=row.pk)]


class AdaptKind(BatchKind):
    name, noun, aliases = "adapt", "adapt run", ("adapt",)
    rows, page = AdaptRun, "adapt-detail"

    def resumed(self, row: AdaptRun) -> list[Hop]:
        return [*adapt_runs.adapt_hops(row), *adapt_advance(adapt_id=row.pk)]


class BatchAction(Action):
    """What is done to one campaign or adapt run."""

    kind: ClassVar[BatchKind]

    def locate(self, where: Mapping[str, Any]) -> Campaign | AdaptRun:
        row = self.kind.get(where[self.takes[0]])
        if row is None:
            raise missing(f"such {self.kind.noun or self.kind.name}")
        return row

    def home(self, target: Campaign | AdaptRun) -> str:
        return self.kind.url(target)


class OnCampaign(BatchAction):
    kind = CampaignKind()
    takes, pages = ("campaign_id",), ("campaign-detail",)


class OnAdapt(BatchAction):
    kind = AdaptKind()
    takes, pages = ("adapt_id",), ("adapt-detail",)


class Switch(BatchAction):
    """Pause, resume or stop by the service of the kind."""

    service: ClassVar[Callable[..., Any]]
    message: ClassVar[str]

    def run(self, target: Campaign | AdaptRun, data: dict[str, Any], call: Call) -> Result:
        return self.result(type(self).service(**{self.kind.name: target}, **call.who))

    def result(self, row: Any) -> Result:
        """What to say and to send."""
        return Result(self.message)


class Turn(Switch):
    """Pause or resume: the newest one can be undone until the batch has ended."""

    state: ClassVar[str]  # that it leads to
    back: ClassVar[str]  # label of the button that takes it back

    def standing(self, entry: AuditEntry, loaded: Batches) -> Standing:
        row = loaded.rows.get(int(entry.object_id))
        if row is None or row.ended:
            return Standing(why_not="it has ended")
        return Standing(self.back) if entry.pk in loaded.turns and row.state == self.state else REPLACED


class Pause(Turn):
    done, message = "Paused", "Paused. Steps in flight end first."
    state, back = "paused", "Resume"


class Resume(Turn):
    done, message = "Resumed", "Resumed."
    state, back = "running", "Pause"

    def result(self, row: Any) -> Result:
        return Result(self.message, then=lambda: send(self.kind.resumed(row)))


class Stop(Switch):
    done, message = "Stopped", "Stopped. Steps in flight end first."
    irreversible = "what was stopped can't be resumed"
    kept: ClassVar[str]

    def question(self, target: Campaign | AdaptRun, data: Mapping[str, Any]) -> Question:
        noun = self.kind.noun or self.kind.name
        what = f"Its searches are stopped and no others start. {self.kept} is kept. This can't be undone; a pause can."
        return Question(f"Stop this {noun}?", what, f"Stop the {noun}", self.home(target))


@register
class StartCampaign(Action):
    """Search many problems under one budget of steps."""

    kind = OnCampaign.kind
    name, label, done = "campaign.start", "Start the campaign", "Started"
    Form = CampaignForm
    pages, route = ("campaign-new",), "campaign-new"
    irreversible = BY_ITS_PAGE

    def form(self, target: Any, data: QueryDict, files: MultiValueDict[str, Any]) -> forms.Form:
        return campaign_form(data)

    def run(self, target: Any, data: dict[str, Any], call: Call) -> Result:
        campaign = campaigns.campaign_start(
            problems=data["problem"],
            device=data["device"],
            proposer=data["proposer"],
            steps=data["steps"],
            title=data["title"],
            seed=data["seed"],
            seeds=data["seeds"],
            params=data["preset"].params.to_json(),
            at_once=data["at_once"],
            concurrency=data["concurrency"],
            memory=data["memory"],
            **call.who,
        )
        return Result(
            then=lambda: send(campaign_advance(campaign_id=campaign.pk)), location=OnCampaign.kind.url(campaign)
        )


@register
class PauseCampaign(OnCampaign, Pause):
    """Start no more searches and pause those that run."""

    name, label, route = "campaign.pause", "Pause the campaign", "campaign-pause"
    inverse = "campaign.resume"
    service = staticmethod(campaigns.campaign_pause)


@register
class ResumeCampaign(OnCampaign, Resume):
    """Go on, with the searches that the pause had paused."""

    name, label, route = "campaign.resume", "Resume the campaign", "campaign-resume"
    inverse = "campaign.pause"
    service = staticmethod(campaigns.campaign_resume)


@register
class StopCampaign(OnCampaign, Stop):
    """Stop its searches and start no others."""

    name, label, route = "campaign.stop", "Stop the campaign", "campaign-stop"
    kept = "What was found"
    service = staticmethod(campaigns.campaign_stop)


def _adapt_started(adapt: AdaptRun) -> Result:
    return Result(then=lambda: send(adapt_advance(adapt_id=adapt.pk)), location=OnAdapt.kind.url(adapt))


@register
class StartAdapt(Action):
    """Compose tasks, search them one after the other and learn from what fails."""

    kind = OnAdapt.kind
    name, label, done = "adapt.start", "Start the adapt run", "Started"
    Form = AdaptForm
    pages, route = ("adapt-new",), "adapt-new"
    irreversible = BY_ITS_PAGE

    def form(self, target: Any, data: QueryDict, files: MultiValueDict[str, Any]) -> forms.Form:
        return adapt_form(data)

    def run(self, target: Any, data: dict[str, Any], call: Call) -> Result:
        plan = adapt_runs.AdaptPlan(
            device=data["device"],
            proposer=data["proposer"],
            tasks=data["tasks"],
            steps=data["steps"],
            control_steps=data["control_steps"],
            seed=data["seed"],
            composer=data["composer"],
            at_once=data["at_once"],
            concurrency=data["concurrency"],
            title=data["title"],
            params=data["preset"].params.to_json(),
            limits=data["limits"],
            memory=MemoryChoice(uses=True, learns=True, trust=data["trust"], threshold=data["threshold"]),
        )
        return _adapt_started(adapt_runs.adapt_start(plan=plan, **call.who))


@register
class TransferAdapt(OnAdapt):
    """Search given problems with and without the rules that an adapt run has learned."""

    name, label, verb = "adapt.transfer", "Search with and without what was learned", "adapt.start"
    Form = TransferForm
    route = "adapt-transfer"
    irreversible = BY_ITS_PAGE

    def run(self, target: AdaptRun, data: dict[str, Any], call: Call) -> Result:
        plan = adapt_runs.AdaptPlan(
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
        made = adapt_runs.transfer_start(learned_by=target, problems=data["problem"], plan=plan, **call.who)
        return _adapt_started(made)


@register
class PauseAdapt(OnAdapt, Pause):
    """Start no more tasks and pause the searches that run."""

    name, label, route = "adapt.pause", "Pause the adapt run", "adapt-pause"
    inverse = "adapt.resume"
    service = staticmethod(adapt_runs.adapt_pause)


@register
class ResumeAdapt(OnAdapt, Resume):
    """Go on, with the searches that the pause had paused."""

    name, label, route = "adapt.resume", "Resume the adapt run", "adapt-resume"
    inverse = "adapt.pause"
    service = staticmethod(adapt_runs.adapt_resume)


@register
class StopAdapt(OnAdapt, Stop):
    """Stop its searches and start no other task."""

    name, label, route = "adapt.stop", "Stop the adapt run", "adapt-stop"
    kept = "What was learned"
    service = staticmethod(adapt_runs.adapt_stop)


@dataclass(frozen=True)
class BudgetFacts:
    """The budget that holds, as the audit log keeps it, and the entries of pauses that were undone."""

    fields: Mapping[str, Any]
    undone: frozenset[int]


class BudgetKind(Kind):
    """The budget of all searches together. There is one, whichever row holds."""

    name = "budget"

    def load(self, entries: Sequence[AuditEntry]) -> BudgetFacts:
        undos = AuditEntry.objects.filter(object_type=self.name, verb=site_budget.PAUSE_UNDO).order_by()
        undone = frozenset(after["undoes"] for after in undos.values_list("after", flat=True))
        return BudgetFacts(site_budget.budget_fields(budget_now()), undone)

    def subject(self, entry: AuditEntry, loaded: BudgetFacts) -> Subject:
        return Subject("budget", "budget of all searches", reverse("spend"))


BUDGET = BudgetKind()


@register
class SetBudget(Action):
    """Set the budget of a day and of a month, the alert, and whether exceeding it pauses searches that cost money."""

    kind = BUDGET
    name, label, done = site_budget.SET, "Set the budget of all searches", "Set"
    Form = BudgetForm
    pages, route = ("spend",), "spend-budget"

    def run(self, target: None, data: dict[str, Any], call: Call) -> Result:
        row = site_budget.budget_set(**data, **call.who)
        return Result("The budget is set." if row is not None else "This is the budget already.")

    def home(self, target: None) -> str:
        return reverse("spend")

    def standing(self, entry: AuditEntry, loaded: BudgetFacts) -> Standing:
        return UNDO if loaded.fields == entry.after else CHANGED

    def undo(self, entry: AuditEntry, call: Call) -> Result:
        site_budget.budget_undo(before=entry.before, **call.who)
        return Result()


@register
class BudgetAlert(Recorded):
    """Spending has reached the alert or has passed the budget."""

    kind = BUDGET
    name = site_budget.ALERT
    irreversible = "an alert changes nothing"

    def describe(self, entry: AuditEntry, loaded: BudgetFacts) -> str:
        return "Budget exceeded" if entry.after.get("passed") else "Budget alert"

    def detail(self, entry: AuditEntry, loaded: BudgetFacts) -> str:
        return str(entry.after.get("reason", ""))


@register
class BudgetPause(Recorded):
    """The budget was exceeded: what costs money was paused."""

    kind = BUDGET
    name, done = site_budget.PAUSE, "Budget exceeded: paid searches were paused"

    def standing(self, entry: AuditEntry, loaded: BudgetFacts) -> Standing:
        return UNDONE if entry.pk in loaded.undone else Standing("Resume what was paused")

    def undo(self, entry: AuditEntry, call: Call) -> Result:
        hops = site_budget.budget_pause_undo(action=entry, **call.who)
        return Result(then=lambda: send(hops))


@register
class BudgetPauseUndo(Recorded):
    """What the budget had paused was resumed."""

    kind = BUDGET
    name, done = site_budget.PAUSE_UNDO, "Resumed what the budget had paused"
    irreversible = "it is an undo itself"
