"""Campaigns for tests, and workers that carry them without a queue."""

from __future__ import annotations

from typing import Any

from judge.problems.models import Problem
from judge.values import AdmissionReport
from search.batches.campaigns import CAMPAIGNS, campaign_start
from search.batches.models import Campaign, CampaignEntry
from search.records.follow_ups import Hop
from search.records.models import Run
from tests.search.fakes import FakeBench
from tests.search.makers import Worker, make_device, make_problem, told


def unseen(name: str) -> Problem:
    """A problem that no device has examined."""
    problem = make_problem(name)
    problem.admission, problem.state = {}, Problem.State.PENDING
    problem.save()
    return problem


def refused(name: str, why: str = "forward() fails.") -> Problem:
    """A problem that the interpreter's preflight has refused."""
    problem = make_problem(name)
    report = {"state": "refused", "reason": "problem.crashed", "message": why, "stages": []}
    problem.admission, problem.state = {"interpreter": report}, Problem.State.REFUSED
    problem.save()
    return problem


def make_campaign(*names: str, **changes: Any) -> Campaign:
    """A campaign over admitted problems of these names: 4 steps each, one at a time, seed 1."""
    names = names or ("a", "b", "c")
    given = {
        "problems": [make_problem(name) for name in names],
        "device": make_device(),
        "proposer": "builtin",
        "steps": 4 * len(names),
        "seed": 1,
    }
    return campaign_start(**(given | changes))


class AdmittingBench(FakeBench):
    """Also examines problems: `refuse` names those whose source it does not like."""

    refuse: tuple[str, ...] = ()
    admitted: int = 0

    def admit(self, problem: Any, *, limits: Any = None, progress: Any = None) -> AdmissionReport:
        self.admitted += 1
        if any(f"# {name}\n" in problem.source for name in self.refuse):
            return AdmissionReport("refused", reason="problem.crashed", message="forward() fails.")
        return AdmissionReport("admitted")


class CampaignWorker(Worker):
    """Does what the tasks do: every hop, and after each one what follows in the campaign."""

    def __init__(self, bench: AdmittingBench | None = None) -> None:
        super().__init__(bench=bench or AdmittingBench())

    def do(self, hop: Hop) -> list[Hop]:
        if hop.task == "admit_entry":
            self.done.append(hop)
            return CAMPAIGNS.admit(hop.target, bench_for=self.bench, clock=self.clock)
        hops = super().do(hop)
        if hop.task in ("propose", "judge_node"):
            hops += CAMPAIGNS.follow(hop.target, now=self.now)
        return hops

    def beat(self, seconds: float = 5) -> list[Hop]:
        """Time passes; what the reaper and the campaigns then want done."""
        return self.later(seconds) + CAMPAIGNS.advance_all(now=self.now)

    def finish(self, campaign: Campaign, beats: int = 60) -> Campaign:
        """Beat and work until it has ended."""
        for _ in range(beats):
            campaign.refresh_from_db()
            if campaign.ended:
                return campaign
            self.work(self.beat(), limit=5000)
        raise AssertionError(f"campaign {campaign.pk} is still {campaign.state}")


def assert_exact(campaign: Campaign) -> None:
    """One search per problem that was not refused, and together exactly the budget."""
    campaign.refresh_from_db()
    entries = list(campaign.entries.select_related("run"))
    started = [entry.run for entry in entries if entry.run]
    assert campaign.state == Campaign.State.FINISHED
    assert Run.objects.count() == len(started) == len({run.problem_id for run in started})
    assert sum(len(told(run)) for run in started) == campaign.steps
    assert all(entry.run for entry in entries if entry.state == CampaignEntry.State.STARTED)
