"""Takes a recorded search in: problem, external device, finished run, nodes, verdicts and the event log, or nothing."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from datetime import datetime
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from django.db import IntegrityError, transaction
from django.utils import timezone

from judge.models import Device, Evaluation, Problem
from judge.services.problems import ProblemRejected, problem_upload
from judge.storable import storable, storable_text
from judge.values import Basis, Verdict, canonical_hash
from search.algorithm.params import SearchParams
from search.facts import fingerprint_of
from search.models import Action, Node, Proposal, Run, RunEvent
from search.recordings import RecordedStep, Recording, RecordingRejected, read_recording
from search.services.actions import ActionRefused, action_done, action_record
from search.services.endings import best_payload, is_better, told_payload
from search.services.runs import root_create
from search.services.texts import clip

if TYPE_CHECKING:
    from django.contrib.auth.models import AbstractBaseUser

PROTOCOL = "adaexplore/reported"
BATCH = 500


def search_import(*, data: bytes, name: str, user: AbstractBaseUser | None = None) -> Run:
    """The run of this recording; the same file again gives the same run. Raises ActionRefused, nothing written."""
    try:
        recording = read_recording(data)
    except RecordingRejected as error:
        raise ActionRefused(f"{PurePath(name).name}: {error}") from error
    key = f"import:{recording.digest[:57]}"
    known = _known(key)
    if known is not None:
        return known
    try:
        with transaction.atomic():
            Action.objects.filter(key=key).update(key=None)  # its run was deleted: import anew
            return _import(recording, name, user, key)
    except ProblemRejected as error:
        raise ActionRefused(f"{PurePath(name).name}: its reference source cannot be used: {error}") from error
    except IntegrityError:  # the same file twice at once: the first one won
        known = _known(key)
        if known is None:
            raise
        return known


def _known(key: str) -> Run | None:
    action = action_done(key=key, verb="run.import")
    return None if action is None else Run.objects.filter(pk=action.object_id).first()


def _import(recording: Recording, name: str, user: AbstractBaseUser | None, key: str) -> Run:
    now = timezone.now()
    stem = PurePath(name).name.split(".")[0] or "recorded"
    problem, _ = problem_upload(
        name=f"{stem}.py",
        data=recording.reference.encode("utf-8", "replace"),
        user=user,
        origin=Problem.Origin.IMPORT,
        level=recording.level,
    )
    device, _ = Device.objects.get_or_create(
        name=f"external:{recording.hardware}",
        defaults={"kind": Device.Kind.EXTERNAL, "title": f"{recording.hardware} (reported, not ours)"},
    )
    run = Run.objects.create(
        problem=problem,
        device=device,
        title=clip(recording.title, 160),
        proposer="imported",
        params=SearchParams().to_json(),
        steps=len(recording.steps),
        state=Run.State.FINISHED,
        origin=Run.Origin.IMPORT,
        owner=user,  # type: ignore[misc]
        imported=storable(
            {"label": recording.label, "file": name, "run_dir": recording.run_dir, "steps": len(recording.steps)}
        ),
        ended_at=now,
    )
    action_record(verb="run.import", run=run, user=user, key=key, after={"file": clip(name, 200)})
    evaluations = Evaluation.objects.bulk_create(
        [_evaluation(step, problem, device) for step in recording.steps], batch_size=BATCH
    )
    nodes = _nodes_create(run, recording, evaluations, now)
    Proposal.objects.bulk_create(
        (
            Proposal(node=nodes[step.number], proposer="imported", prompt=storable_text(step.prompt))
            for step in recording.steps
            if step.prompt
        ),
        batch_size=BATCH,
    )
    _events_create(run, recording, nodes, user)
    return run


def verdict_of_step(step: RecordedStep) -> Verdict:
    """The verdict that the published score and error text amount to."""
    if step.correct:
        return Verdict.PASS
    error = step.error.lower()
    told = {
        "timeout": Verdict.TIMED_OUT,
        "syntaxerror": Verdict.BAD_SOURCE,
        "out of memory": Verdict.OUT_OF_MEMORY,
        "triton.compiler.errors": Verdict.COMPILE_FAILED,
        "outofresources": Verdict.COMPILE_FAILED,
        "incorrect output": Verdict.WRONG,
    }
    found = next((verdict for words, verdict in told.items() if words in error), None)
    return found or (Verdict.CRASHED if step.loads else Verdict.LOAD_FAILED)


def _evaluation(step: RecordedStep, problem: Problem, device: Device) -> Evaluation:
    verdict = verdict_of_step(step)
    passed = verdict is Verdict.PASS
    source = storable_text(step.code)
    return Evaluation(
        problem=problem,
        device=device,
        candidate_hash=canonical_hash(source),
        source=source,
        protocol=PROTOCOL,
        toolchain="as published",
        verdict=verdict.value,
        stage="reported",
        reason="" if passed else f"reported.{verdict.value}",
        message=clip(step.error, 4000),
        loads=step.loads,
        report={"reported": storable(step.figures)},
        speedup=step.speedup,
        basis=Basis.REPORTED.value if step.speedup else "",
    )


def _nodes_create(run: Run, recording: Recording, evaluations: list[Evaluation], now: datetime) -> dict[int, Node]:
    """All nodes by number, inserted level by level: a parent needs its row before its children."""
    nodes = {0: root_create(run=run)}
    levels: dict[int, list[RecordedStep]] = defaultdict(list)
    depths = {0: 0}
    for step in recording.steps:
        depths[step.number] = depths[step.parent] + 1
        levels[depths[step.number]].append(step)
    for depth in sorted(levels):
        rows = [_node(run, step, nodes[step.parent], evaluations[step.number - 1], now) for step in levels[depth]]
        for node in Node.objects.bulk_create(rows, batch_size=BATCH):
            nodes[node.number] = node
    return nodes


def _node(run: Run, step: RecordedStep, parent: Node, evaluation: Evaluation, now: datetime) -> Node:
    return Node(
        run=run,
        number=step.number,
        parent=parent,
        kind=step.kind,
        context=list(step.context),
        state=Node.State.TOLD,
        source=evaluation.source,
        source_hash=evaluation.candidate_hash if step.code else "",
        evaluation=evaluation,
        fingerprint=fingerprint_of(evaluation, "", ""),
        told_order=step.number,
        told_at=now,
    )


def _events_create(run: Run, recording: Recording, nodes: dict[int, Node], user: AbstractBaseUser | None) -> None:
    """The log the run would have written, so that it can be browsed and scrubbed like any other."""
    events = [
        RunEvent(run=run, seq=seq, kind=kind, payload=payload, actor=user)  # type: ignore[misc]
        for seq, (kind, payload) in enumerate(_log(run, recording, nodes), start=1)
    ]
    RunEvent.objects.bulk_create(events, batch_size=BATCH)
    run.event_seq = len(events)
    run.save(update_fields=["event_seq"])


def _log(run: Run, recording: Recording, nodes: dict[int, Node]) -> Iterator[tuple[str, dict[str, Any]]]:
    device = run.device.name
    yield "run.started", {"steps": run.steps, "proposer": run.proposer, "device": device, "imported": True}
    best: Node | None = None
    for step in recording.steps:
        node = nodes[step.number]
        told = {"number": step.number}
        yield "node.reserved", {**told, "parent": step.parent, "kind": step.kind, "context": list(step.context)[:50]}
        yield "node.proposed", {**told, "source_hash": node.source_hash, "summary": ""}
        yield "node.judging", {**told, "device": device}
        yield "node.told", told_payload(node, node.evaluation)
        if node.evaluation and is_better(node.number, node.evaluation, best):
            best = node
            yield "node.best", best_payload(node, node.evaluation)
    yield "run.ended", {"state": run.state, "reason": "", "told": run.steps, "best": best and best.number}
