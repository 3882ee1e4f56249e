"""Adapt runs for tests, a writer of tasks, and workers that carry them without a queue."""

from __future__ import annotations

from typing import Any

from judge.problems.models import Problem
from memory.adapt.composing import Composed, NothingComposed
from memory.adapt.models import AdaptRun
from search.batches.adapts import ADAPTS, AdaptPlan, adapt_start
from search.records.follow_ups import Hop
from search.records.models import Run
from tests.search.campaign_rows import AdmittingBench, CampaignWorker
from tests.search.makers import make_device, make_problem, told

MODULE = """# {name}
class Model: ...


def get_inputs():
    return []


def get_init_inputs():
    return []
"""


def module(name: str) -> str:
    """The text of a task; `AdmittingBench.refuse` knows it by its name."""
    return MODULE.format(name=name)


def make_samples(count: int = 3) -> None:
    """Problems that a composer may start from."""
    for number in range(count):
        make_problem(f"sample{number}")
    Problem.objects.filter(slug__startswith="sample").update(origin=Problem.Origin.SAMPLE)


def make_adapt(*, key: str | None = None, **changes: Any) -> AdaptRun:
    """An adapt run of 2 tasks with a step and one without memory each, one at a time, seed 1."""
    make_samples()
    given = {"device": make_device(), "tasks": 2, "steps": 1, "control_steps": 1, "seed": 1}
    return adapt_start(plan=AdaptPlan(**(given | changes)), key=key)


class ScriptedWriter:
    """Writes task by task; `missing` are places it has nothing for."""

    def __init__(self, *, missing: tuple[int, ...] = ()) -> None:
        self.missing, self.asked = missing, []

    def __call__(self, composer: str, seed: int, place: int) -> Composed:
        self.asked.append(place)
        if place in self.missing:
            raise NothingComposed("No chain of these operators makes a problem.")
        return Composed(f"Task {place}", module(f"task{place}"), {"seeds": ["a"], "chain": ["nn.ReLU"]})


class AdaptWorker(CampaignWorker):
    """Does what the tasks do: every hop, and after each one what follows in the adapt run."""

    def __init__(self, bench: AdmittingBench | None = None, write: ScriptedWriter | None = None) -> None:
        super().__init__(bench=bench)
        self.write = write or ScriptedWriter()

    def do(self, hop: Hop) -> list[Hop]:
        if hop.task == "compose_task":
            self.done.append(hop)
            return ADAPTS.compose(hop.target, write=self.write, clock=self.clock)
        if hop.task == "admit_task":
            self.done.append(hop)
            return ADAPTS.admit(hop.target, bench_for=self.bench, clock=self.clock)
        hops = super().do(hop)
        if hop.task in ("propose", "judge_node"):
            hops += ADAPTS.follow(hop.target, now=self.now)
        return hops

    def beat(self, seconds: float = 5) -> list[Hop]:
        """Time passes; what the reaper and the adapt runs then want done."""
        return super().beat(seconds) + ADAPTS.advance_all(now=self.now)

    def complete(self, adapt: AdaptRun, beats: int = 90) -> AdaptRun:
        """Beat and work until it has ended."""
        for _ in range(beats):
            adapt.refresh_from_db()
            if adapt.ended:
                return adapt
            self.work(self.beat(), limit=8000)
        raise AssertionError(f"adapt run {adapt.pk} is still {adapt.state}")


def searches(adapt: AdaptRun) -> list[tuple[int, Run, Run | None]]:
    """(place, search with memory, search without) of its attempted tasks."""
    started = adapt.entries.filter(state="started").select_related("run", "control").order_by("place")
    return [(task.place, task.run, task.control) for task in started]


def assert_exact(adapt: AdaptRun) -> None:
    """Every wanted task once, both searches with exactly their steps, nothing doubled."""
    adapt.refresh_from_db()
    assert adapt.state == AdaptRun.State.FINISHED
    found = searches(adapt)
    assert len(found) == adapt.tasks
    places = list(adapt.entries.order_by("place").values_list("place", flat=True))
    assert places == list(range(1, len(places) + 1))
    for _, run, control in found:
        assert len(told(run)) == adapt.steps and len(told(control)) == adapt.control_steps
        assert (run.problem_id, run.seed) == (control.problem_id, control.seed)
    assert ADAPTS.searches(adapt).count() == Run.objects.count() == 2 * len(found)
