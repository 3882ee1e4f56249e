"""Large searches and many searches in a few statements, with verdicts and events as the services leave them."""

from __future__ import annotations

from datetime import timedelta
from random import Random

from django.utils import timezone

from judge.evaluations.models import Evaluation
from search.records.models import Node, Run, RunEvent
from tests.search.makers import make_device, make_problem, make_run

BATCH = 1000


def forest(nodes: int, seed: int = 1) -> Run:
    """A running search of this many told nodes: children prefer recent parents, every fifth node is wrong."""
    dice, now = Random(seed), timezone.now()
    run = make_run(steps=min(nodes, 10_000))
    root = run.nodes.get(number=0)
    speedups = [None if k % 5 == 0 else round(dice.lognormvariate(0.3, 0.4), 3) for k in range(1, nodes + 1)]
    verdicts = Evaluation.objects.bulk_create((_verdict(run, k, x) for k, x in enumerate(speedups, 1)), BATCH)
    parents = {k: _parent(dice, k) for k in range(1, nodes + 1)}
    made = Node.objects.bulk_create(
        (
            Node(
                pk=root.pk + k, run=run, number=k, parent_id=root.pk + parents[k],
                kind="small" if parents[k] else "large",
                state="told", told_order=k, evaluation=verdict, told_at=now + timedelta(seconds=k),
            )
            for k, verdict in enumerate(verdicts, 1)
        ),
        BATCH,
    )  # fmt: skip
    _events(run, made)
    return run


def _parent(dice: Random, number: int) -> int:
    """The start for one in twenty, else a node not long before this one."""
    return 0 if dice.random() < 0.05 else max(0, number - 1 - int(dice.expovariate(1 / 200)))


def _verdict(run: Run, number: int, speedup: float | None) -> Evaluation:
    given = {
        "problem": run.problem,
        "device": run.device,
        "candidate_hash": f"f{run.pk}-{number}",
        "protocol": "judge/1",
    }
    if speedup is None:
        return Evaluation(**given, verdict="wrong", reason="wrong.values")
    figures = {"speedup": speedup, "speedup_low": speedup * 0.95, "speedup_high": speedup * 1.05, "speedup_n": 24}
    return Evaluation(**given, **figures, verdict="pass", basis="modelled", audit="passed")


def _events(run: Run, nodes: list[Node]) -> None:
    """Each node's birth and verdict, and each new best, numbered from where the log stands."""
    run.refresh_from_db()
    best, rows = 0.0, []
    for node in nodes:
        verdict = node.evaluation
        assert verdict is not None
        figures = {
            "number": node.number, "verdict": verdict.verdict, "reason": verdict.reason, "speedup": verdict.speedup,
            "low": verdict.speedup_low, "high": verdict.speedup_high, "n": verdict.speedup_n, "basis": verdict.basis,
        }  # fmt: skip
        rows += [("node.reserved", {"number": node.number}), ("node.told", figures)]
        if verdict.speedup and verdict.speedup > best:
            best = verdict.speedup
            rows.append(("node.best", {**figures, "order": node.told_order, "evaluation": verdict.pk}))
    numbered = enumerate(rows, run.event_seq + 1)
    RunEvent.objects.bulk_create((RunEvent(run=run, seq=seq, kind=k, payload=p) for seq, (k, p) in numbered), BATCH)
    Run.objects.filter(pk=run.pk).update(event_seq=run.event_seq + len(rows))


def many(count: int) -> None:
    """So many finished searches of two candidates each, for the list of them."""
    problem, device, now = make_problem(), make_device(), timezone.now()
    given = {"problem": problem, "device": device, "proposer": "builtin", "steps": 1, "seed": 1, "state": "finished"}
    runs = Run.objects.bulk_create((Run(**given, ended_at=now) for _ in range(count)), BATCH)
    roots = Node.objects.bulk_create(
        (Node(run=run, number=0, kind="root", state="told", told_order=0) for run in runs), BATCH
    )
    verdict = _verdict(runs[0], 1, 2.0)
    verdict.save()
    told = {"kind": "large", "state": "told", "evaluation": verdict, "told_at": now}
    pairs = ((root, k) for root in roots for k in (1, 2))
    Node.objects.bulk_create((Node(run_id=r.run_id, parent=r, number=k, told_order=k, **told) for r, k in pairs), BATCH)
