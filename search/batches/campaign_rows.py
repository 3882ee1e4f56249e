"""A campaign as shown: each problem's state and search, the budget, what is left. Six queries, whatever its size."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from judge.evaluations.models import Evaluation
from search.batches.campaign_advance import steps_held
from search.batches.models import Campaign, CampaignEntry
from search.records.models import Run
from search.records.queries import RunSummary, run_summaries, told_counts
from search.reports.build import report_of, report_runs
from search.reports.values import BEST, Report

# Of an entry or its search, the busiest first.
STATES = ("running", "paused", "stopping", "waiting", "finished", "stopped", "failed", "refused", "skipped")


@dataclass(frozen=True)
class EntryRow:
    """One problem. `state` is waiting, refused, skipped, or the state of its search."""

    entry: CampaignEntry
    summary: RunSummary | None

    @property
    def state(self) -> str:
        if self.summary is not None:
            return str(self.summary.run.state)
        return "stopped" if self.entry.state == CampaignEntry.State.STARTED else str(self.entry.state)

    @property
    def best(self) -> Evaluation | None:
        return self.summary.best_evaluation if self.summary else None


@dataclass(frozen=True)
class CampaignRow:
    """One campaign at a glance. Steps: `told`, `held` by open searches beside that, `unheld` by nobody."""

    campaign: Campaign
    problems: int
    counts: dict[str, int]  # state of an entry or its search -> how many
    told: int
    held: int

    @property
    def done(self) -> int:
        """Problems nothing more will happen to."""
        return sum(self.counts.get(state, 0) for state in ("finished", "stopped", "failed", "refused", "skipped"))

    @property
    def unheld(self) -> int:
        return max(self.campaign.steps - self.told - self.held, 0)

    @property
    def unsearched(self) -> int:
        """Problems that were refused or skipped."""
        return self.counts.get("refused", 0) + self.counts.get("skipped", 0)

    @property
    def outcome(self) -> str:
        """How an ended campaign fell short of its problems; empty while it runs and where each had a search."""
        if not self.campaign.ended or not self.unsearched:
            return ""
        if self.unsearched == self.problems:
            return "No search was started: every problem was refused or skipped. The reason stands with each."
        return f"{self.unsearched} of {self.problems} problems had no search. The reason stands with each."

    @property
    def words(self) -> list[tuple[str, int]]:
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
    held = steps_held(every)
    open_ids = {run.pk for run in every if not run.ended}
    told = Counter(told_counts(run.pk for run in every))
    return [
        CampaignRow(
            campaign=campaign,
            problems=sum(counts[campaign.pk].values()),
            counts=dict(counts[campaign.pk]),
            told=sum(told[run] for run in runs[campaign.pk]),
            held=sum(held[run] - told[run] for run in runs[campaign.pk] if run in open_ids),
        )
        for campaign in campaigns
    ]


def campaign_report(campaign: Campaign, *, rule: str = BEST, unassisted: bool = False) -> Report:
    """The aggregates over the campaign's searches. A problem without a search is in none of them: it has no kernel to
    judge, and the page lists it with the reason."""
    ids = campaign.entries.exclude(run=None).values_list("run", flat=True)
    title = f"Campaign {campaign.pk}: {campaign.title}"
    return report_of(report_runs(ids=ids), title=title, rule=rule, unassisted=unassisted)
