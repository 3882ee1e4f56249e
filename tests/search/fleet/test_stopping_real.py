"""A person stops an evaluation whose kernel, or whose reference, never returns: every process of it ends."""

from __future__ import annotations

from itertools import pairwise

import pytest

from judge.bench.processes.stopping import LOOK_S, look, stoppable
from judge.bench.processes.watching import descendants
from judge.bench.runner import Bench
from judge.evaluations.models import Evaluation
from judge.problems.models import Problem
from judge.values import Stopped, canonical_hash, text_hash
from search.engine import steps
from search.engine.steps import step_judge
from search.records.models import Node
from tests.judge.bench_problems import PROBLEM, SAME
from tests.pages import client_of
from tests.search.makers import make_run

SPINS = """
import torch, triton, triton.language as tl


@triton.jit
def spin(x, y, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    left = tl.program_id(0) + 1
    while left > 0:
        left = left + 1 - 1
    tl.store(y + at, tl.load(x + at, mask=at < n), mask=at < n)


class ModelNew(torch.nn.Module):
    def __init__(self, size):
        super().__init__()
        self.norm = torch.nn.LayerNorm(size)

    def forward(self, x):
        y = torch.empty_like(x)
        spin[(1,)](x, y, x.numel(), BLOCK=1024)
        return y
"""
ENDLESS = PROBLEM.replace("return torch.nn.functional.gelu(self.norm(x))", "\n        while True:\n            pass")


def alive(bench: Bench) -> set[int]:
    """Processes below the bench's fork servers that are no fork servers themselves."""
    servers = [server for server in bench._servers.values() if server.process is not None]
    below = {pid for server in servers for pid in descendants(server.process.pid)}
    return {child.pid for server in bench._servers.values() for child in server.children.values()} & below


@pytest.mark.bench
@pytest.mark.django_db
@pytest.mark.parametrize("what", ["kernel", "reference"])
def test_all_processes_of_an_endless_evaluation_end_and_the_node_is_withdrawn(interpreter_bench, monkeypatch, what):
    reference, source = (PROBLEM, SPINS) if what == "kernel" else (ENDLESS, SAME)
    run = make_run(steps=1)
    Problem.objects.filter(pk=run.problem_id).update(source=reference, source_hash=text_hash(reference))
    node = Node.objects.create(
        run=run, number=1, parent=run.nodes.get(number=0), kind="large", state="judging", source=source,
        source_hash=canonical_hash(source), lease_owner="queue",
    )  # fmt: skip
    operator, held, looks = client_of("operator"), steps.lease_held, []

    def stops(*, node_id: int, owner: str) -> bool:
        looks.append(len(alive(interpreter_bench)))
        if sum(count > 1 for count in looks) == 4:  # referee and candidate are at work, and stay so
            assert operator.post(f"/s/{run.pk}/n/1/stop", {"sure": "1"}).status_code == 302
        return held(node_id=node_id, owner=owner)

    monkeypatch.setattr(steps, "lease_held", stops)
    interpreter_bench.rest()
    assert step_judge(node_id=node.pk, bench_for=lambda device: interpreter_bench) == []
    node.refresh_from_db()
    assert (node.state, node.message) == ("cancelled", "Its evaluation was stopped by some-operator.")
    assert looks[-1] > 1 and not alive(interpreter_bench) and not Evaluation.objects.exists()


def test_the_bench_asks_twice_a_second_and_gives_up_at_the_first_no():
    now, answers, asked = 100.0, [False, False, True], []

    def unwanted() -> bool:
        asked.append(now)
        return answers[len(asked) - 1]

    with pytest.raises(Stopped), stoppable(unwanted, clock=lambda: now):
        while now < 200:
            look()
            now += 0.05
    assert len(asked) == 3 and all(LOOK_S <= b - a < LOOK_S + 0.1 for a, b in pairwise(asked))
