"""Campaigns: problems that share one budget of steps; how they start, how they stand, and their report."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from django.urls import reverse
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from adaexplore_site.core.audit import ActionRefused
from adaexplore_site.core.text import counted
from judge.devices.models import Device
from judge.evaluations.models import Evaluation
from judge.problems.models import Problem
from judge.problems.preflight import preflight
from memory.prompting.choices import MemoryChoice
from search.batches.engine import MAX_AT_ONCE, SOURCES, Plan, Source
from search.batches.models import Campaign, CampaignEntry
from search.records.models import Run
from search.records.queries import RunSummary, run_summaries, told_counts
from search.records.queue import FollowUp
from search.reports.build import report_of, report_runs
from search.reports.values import BEST, Report
from search.runs.services import MAX_STEPS, run_start

if TYPE_CHECKING:
    from django.contrib.auth.models import AbstractBaseUser
    from django_stubs_ext import StrOrPromise

MAX_PROBLEMS = 1000
# Preflights asked for beyond the free places: a free place does not wait, and the share of a problem that is refused is
# known while there are others left to take it.
AHEAD = 8
# Of an entry or its search, the busiest first.
STATES = ("running", "paused", "stopping", "waiting", "finished", "stopped", "failed", "refused", "skipped")
NO_MORE = STATES[4:]


class Campaigns(Source):
    """The source of a campaign is a list of problems, in a fixed order."""

    name = noun = "campaign"
    rows, items = Campaign, CampaignEntry
    searched_as = ("campaign_entry",)
    tasks = ("admit_entry",)
    items_first = True  # what a refused problem leaves goes to those that have not started

    def fill(self, batch: Campaign, items: list[CampaignEntry], now: datetime, *, settled: bool) -> list[FollowUp]:
        """Fill the free places with searches of the next problems, in order; finish when nothing is left.

        Fair share: a search that starts gets the steps that no search holds, divided by the problems that have not
        started, rounded up. So each gets budget / problems at first. What an ended search left, and the share of a
        refused problem, goes to those that have not started yet; what the last ones leave stays unspent.
        """
        follow_ups: list[FollowUp] = []
        if batch.device.state == Device.State.ACTIVE:  # else searches in flight end by their own rules
            waiting = [entry for entry in items if entry.waiting]
            follow_ups = self._fill(batch, waiting, batch.at_once - sum(entry.live for entry in items), now)
        if not any(entry.waiting or entry.live for entry in items):  # also when the last ones were refused just now
            self.finish(batch, now)
        return follow_ups

    def _fill(self, campaign: Campaign, waiting: list[CampaignEntry], free: int, now: datetime) -> list[FollowUp]:
        follow_ups: list[FollowUp] = []
        asked, left = 0, len(waiting)
        for entry in waiting:
            if free <= 0 and asked >= AHEAD:
                break
            check = preflight(entry.problem, campaign.device, now=now)
            if check.usable and free > 0:
                run = self._start(campaign, entry, left)
                left -= 1
                if run is not None:
                    free -= 1
                    follow_ups.append(FollowUp("advance", run.pk))
            elif check.barred:
                entry.close(CampaignEntry.State.REFUSED, check.why_not)
                left -= 1
            elif not check.usable and asked < max(free, 0) + AHEAD:
                asked += 1
                admit = FollowUp("admit_entry", entry.pk, queue=campaign.device.queue)
                follow_ups += self.ask(admit, entry, now, again=check.stalled)
        return follow_ups

    def _start(self, campaign: Campaign, entry: CampaignEntry, left: int) -> Run | None:
        """Start the search of one problem. None when that is refused, or when no step is left; the entry says why."""
        share = min(-(-steps_unheld(campaign) // left), MAX_STEPS)
        if share < 1:
            entry.close(CampaignEntry.State.SKIPPED, "The budget of the campaign was used up.")
            return None
        try:
            entry.run = run_start(
                **self.search_of(campaign, entry.problem, campaign.seeds),
                steps=share,
                origin=campaign.origin,
                key=f"campaign:{campaign.pk}:{entry.pk}",
                memory=MemoryChoice.from_json(campaign.memory),
            )
        except ActionRefused as error:
            entry.close(CampaignEntry.State.REFUSED, str(error))
            return None
        entry.state = CampaignEntry.State.STARTED
        entry.save(update_fields=["run", "state"])
        return entry.run


CAMPAIGNS = SOURCES["campaigns"] = Campaigns()


def campaign_start(
    *,
    problems: Sequence[Problem],
    steps: int,
    seeds: str = Campaign.Seeds.SPREAD,
    user: AbstractBaseUser | None = None,
    origin: str = Run.Origin.WEB,
    key: str | None = None,
    **plan: Any,
) -> Campaign:
    """Create a campaign over these problems, in this order. The caller then advances it; nothing runs before that.

    `steps` is shared: see `Campaigns.fill`; `plan` are the fields of `Plan`. Each search freezes the rules in force at
    its own start. The same `key` gives the first campaign again. Raises ActionRefused with what to change.
    """
    if (first := CAMPAIGNS.created(key)) is not None:
        return first  # type: ignore[no-any-return]
    unique = list({problem.pk: problem for problem in problems}.values())
    _check_problems(len(unique), steps)
    if seeds not in Campaign.Seeds.values:
        text = gettext("The seeds must be one of %(choices)s, not %(seeds)s.")
        raise ActionRefused(text % {"choices": ", ".join(Campaign.Seeds.values), "seeds": seeds})
    given = Plan(**plan)
    title = counted(len(unique), "problem")  # stored
    fields = given.fields(title, (gettext("Searches at once"), given.at_once, 1, MAX_AT_ONCE))
    fields |= {"seeds": seeds, "steps": steps, "origin": origin}
    after = {"steps": steps, "problems": len(unique), "proposer": given.proposer, "device": given.device.name}
    items = [{"problem": problem} for problem in unique]
    return CAMPAIGNS.create(fields, items, after=after, user=user, key=key)  # type: ignore[no-any-return]


def _check_problems(count: int, steps: int) -> None:
    if not count:
        raise ActionRefused(gettext("No problem is chosen. Choose at least one, or change the filter."))
    if count > MAX_PROBLEMS:
        text = gettext("A campaign takes up to %(most)d problems; these are %(n)d.")
        raise ActionRefused(text % {"most": MAX_PROBLEMS, "n": count})
    if not count <= steps <= MAX_STEPS * count:
        text = gettext("%(n)d problems need from %(n)d to %(most)d steps together, not %(steps)d.")
        raise ActionRefused(text % {"n": count, "most": MAX_STEPS * count, "steps": steps})


def steps_unheld(campaign: Campaign) -> int:
    """Steps of the budget that no search holds: an open one holds its own budget, an ended one what it completed."""
    return campaign.steps - sum(_steps_held(CAMPAIGNS.searches(campaign)).values())


def _steps_held(runs: Iterable[Run]) -> dict[int, int]:
    """Run id -> steps it holds of a shared budget."""
    found = list(runs)
    completed = told_counts(run.pk for run in found)
    return {run.pk: completed.get(run.pk, 0) if run.ended else run.steps for run in found}


@dataclass(frozen=True)
class EntryRow:
    """One problem with the summary of its search."""

    entry: CampaignEntry
    summary: RunSummary | None

    @property
    def best(self) -> Evaluation | None:
        return self.summary.best_evaluation if self.summary else None


@dataclass(frozen=True)
class CampaignRow:
    """One campaign at a glance. Steps: `completed`, `held` by open searches beside that, `unheld` by none."""

    batch: Campaign
    problems: int
    counts: dict[str, int]  # state of an entry or its search -> how many
    completed: int
    held: int

    @property
    def done(self) -> int:
        """Problems that are decided: their search has ended, or they have none."""
        return sum(self.counts.get(state, 0) for state in NO_MORE)

    @property
    def unheld(self) -> int:
        return max(self.batch.steps - self.completed - self.held, 0)

    @property
    def unsearched(self) -> int:
        """Problems that were refused or skipped."""
        return self.counts.get("refused", 0) + self.counts.get("skipped", 0)

    @property
    def outcome(self) -> str:
        """Which problems of an ended campaign had no search; empty while it runs and where each had one."""
        if not self.batch.ended or not self.unsearched:
            return ""
        if self.unsearched == self.problems:
            return gettext("No search was started: every problem was refused or skipped. Each lists its reason.")
        text = gettext("%(n)d of %(all)d problems had no search. Each lists its reason.")
        return text % {"n": self.unsearched, "all": self.problems}

    @property
    def states(self) -> list[tuple[str, int]]:
        """States with their counts, the busiest first."""
        return [(state, self.counts[state]) for state in STATES if self.counts.get(state)]


def entry_rows(campaign: Campaign) -> list[EntryRow]:
    """Every problem of a campaign in its order, with the summary of its search."""
    entries = list(
        campaign.entries.select_related("problem", "run__device", "run__problem", "run__owner")
        .defer("problem__source", "problem__admission", "run__problem__source", "run__problem__admission")
        .order_by("place")
    )
    summaries = {one.run.pk: one for one in run_summaries([entry.run for entry in entries if entry.run])}
    return [EntryRow(entry, summaries.get(entry.run_id or 0)) for entry in entries]


def campaign_row(campaign: Campaign) -> CampaignRow:
    """The campaign at a glance."""
    return campaign_rows([campaign])[0]


def campaign_rows(campaigns: Sequence[Campaign]) -> list[CampaignRow]:
    """These campaigns at a glance, in a constant number of queries."""
    entries = CampaignEntry.objects.filter(campaign__in=campaigns).values_list("campaign", "state", "run__state", "run")
    counts: dict[int, Counter[str]] = {campaign.pk: Counter() for campaign in campaigns}
    runs: dict[int, list[int]] = {campaign.pk: [] for campaign in campaigns}
    for campaign_id, state, run_state, run in entries:
        ended = "stopped" if state == CampaignEntry.State.STARTED else state
        counts[campaign_id][run_state or ended] += 1
        if run:
            runs[campaign_id].append(run)
    every = list(Run.objects.filter(pk__in=[run for ids in runs.values() for run in ids]))
    held = _steps_held(every)
    completed = Counter(told_counts(held))
    return [
        CampaignRow(
            batch=campaign,
            problems=sum(counts[campaign.pk].values()),
            counts=dict(counts[campaign.pk]),
            completed=sum(completed[run] for run in runs[campaign.pk]),
            held=sum(
                held[run] - completed[run] for run in runs[campaign.pk]
            ),  # an ended search holds what it completed
        )
        for campaign in campaigns
    ]


def campaign_report(campaign: Campaign, *, rule: str = BEST) -> Report:
    """The aggregates over the campaign's searches. A problem without a search is in none of them: it has no kernel to
    judge, and the page lists it with the reason."""
    ids = campaign.entries.exclude(run=None).values_list("run", flat=True)
    return report_of(report_runs(ids=ids), title=f"Campaign {campaign.pk}: {campaign.title}", rule=rule)


START = "start"


@dataclass(frozen=True)
class Order:
    """What problems are sorted by: the greatest first where `down`. None as a key is unknown, and comes last."""

    label: StrOrPromise  # of the link
    caption: StrOrPromise  # of the table
    key: Callable[[EntryRow], Any]
    down: bool = False


ORDERS = {
    START: Order(_("by start"), _("Problems by start"), lambda row: row.entry.place),
    "problem": Order(
        _("by problem"),
        _("Problems by problem, equal ones in the order of start"),
        lambda row: (row.entry.problem.title.casefold(), row.entry.problem.slug),
    ),
    "state": Order(
        _("by state"),
        _("Problems by state, equal ones in the order of start"),
        lambda row: STATES.index(row.entry.search_state),
    ),
    "steps": Order(
        _("by steps"),
        _("Problems by steps, equal ones in the order of start"),
        lambda row: row.summary.told if row.summary else None,
        down=True,
    ),
    "speedup": Order(
        _("by speedup"),
        _("Problems by speedup, equal ones in the order of start"),
        lambda row: row.best.speedup if row.best else None,
        down=True,
    ),
}


@dataclass(frozen=True)
class SortLink:
    """A link to one order; that of the present order reverses it."""

    name: str
    label: StrOrPromise
    url: str
    direction: str  # ascending or descending; empty for other orders


@dataclass(frozen=True)
class Sorting:
    """The order of a campaign's problems."""

    name: str = START
    reverse: bool = False

    @classmethod
    def of(cls, asked: str) -> Sorting:
        """A name of ORDERS, reversed by a `-` before it; anything else is the order of start."""
        bare = asked.removeprefix("-")
        return cls(bare, asked != bare) if bare in ORDERS else cls()

    @property
    def down(self) -> bool:
        return ORDERS[self.name].down != self.reverse

    @property
    def caption(self) -> str:
        return str(ORDERS[self.name].caption)

    @property
    def query(self) -> str:
        """For the address; empty for the order of start."""
        return f"-{self.name}" if self.reverse else "" if self.name == START else self.name

    def rows(self, rows: Sequence[EntryRow]) -> list[EntryRow]:
        """The rows in this order, equal ones in the order of start, those without a value last."""
        key = ORDERS[self.name].key
        in_order = sorted(rows, key=lambda row: row.entry.place)
        known = [row for row in in_order if key(row) is not None]
        return sorted(known, key=key, reverse=self.down) + [row for row in in_order if key(row) is None]

    def links(self, campaign: Campaign) -> list[SortLink]:
        """One link for every order."""
        own, found = reverse("campaign-detail", args=[campaign.pk]), []
        for name, order in ORDERS.items():
            here = name == self.name
            query = Sorting(name, here and not self.reverse).query
            direction = ("descending" if self.down else "ascending") if here else ""
            found.append(SortLink(name, order.label, f"{own}?sort={query}" if query else own, direction))
        return found
