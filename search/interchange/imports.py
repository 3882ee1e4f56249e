"""Imports a recorded search: problem, external device, finished run, nodes, verdicts and the event log, or nothing."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any

from django.db import IntegrityError, transaction
from django.utils import timezone
from django.utils.translation import gettext as _

from adaexplore_site.core import env
from adaexplore_site.core.audit import ActionRefused, action_done
from adaexplore_site.core.models import AuditEntry
from adaexplore_site.core.text import clip, storable, storable_text
from judge.devices.models import MODELLED_ELSEWHERE, Device
from judge.devices.services import external_device
from judge.evaluations.models import PROTOCOL_ELSEWHERE, Evaluation
from judge.problems.models import Problem
from judge.problems.services import ProblemRejected, problem_upload
from judge.values import Basis, Verdict, canonical_hash
from memory.prompting.freezing import memory_recorded
from search.algorithm.params import SearchParams
from search.engine.completion import best_event, completed_event, failures_keep, is_better
from search.engine.sketches import sketch
from search.interchange.recording import (
    RecordedStep,
    Recording,
    RecordingRejected,
    Withdrawn,
    read_recording,
    verdict_of_step,
)
from search.interchange.run_folder import ArchiveRejected, files_in_folder, files_in_zip, folder_of, read_folder
from search.records.events import (
    Event,
    NodeCancelled,
    NodeJudging,
    NodeProposed,
    NodeReserved,
    RecordedAct,
    RunEnded,
    RunStarted,
)
from search.records.facts import fingerprint_of
from search.records.kinds import action_record
from search.records.models import Node, Proposal, Run, RunEvent
from search.runs.services import root_create

if TYPE_CHECKING:
    from django.contrib.auth.models import AbstractBaseUser


ZIP_MAGIC = b"PK"
BATCH = 500
WITHDRAWN = "Withdrawn in the search that was exported."


def search_import(*, data: bytes, name: str, user: AbstractBaseUser | None = None) -> Run:
    """The run of this recording: packed JSON, gzipped or not, or a zip that holds one run folder.

    The same file again gives the same run. Raises ActionRefused, nothing written.
    """
    shown = PurePath(name).name
    try:
        recording = _zipped(data, shown) if data[:2] == ZIP_MAGIC else read_recording(data)
    except (RecordingRejected, ArchiveRejected) as error:
        raise ActionRefused(_("%(shown)s: %(error)s") % {"shown": shown, "error": error}) from error
    return recording_import(recording=recording, name=name, user=user)


def folder_import(*, folder: Path, user: AbstractBaseUser | None = None) -> Run:
    """The run of a run folder on disk. Raises ActionRefused, nothing written, and OSError."""
    try:
        recording = read_folder(files_in_folder(folder), name=folder.resolve().name)
    except (RecordingRejected, ArchiveRejected) as error:
        raise ActionRefused(_("%(folder)s: %(error)s") % {"folder": folder, "error": error}) from error
    return recording_import(recording=recording, name=folder.resolve().name, user=user)


def _zipped(data: bytes, name: str) -> Recording:
    place, files = folder_of(files_in_zip(data), name=name.split(".")[0])
    return read_folder(files, name=place)


def recording_import(*, recording: Recording, name: str, user: AbstractBaseUser | None = None) -> Run:
    """The run of a recording that was read before. Raises ActionRefused, nothing written."""
    key = f"import:{recording.digest[:57]}"
    known = _known(key)
    if known is not None:
        return known
    try:
        with transaction.atomic():
            AuditEntry.objects.filter(key=key).update(key=None)  # its run was deleted: import anew
            return _import(recording, name, user, key)
    except ProblemRejected as error:
        raise ActionRefused(
            _("%(name)s: its reference source cannot be used: %(error)s")
            % {"name": PurePath(name).name, "error": error}
        ) from error
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
    stem = recording.slug or PurePath(name).name.split(".")[0] or "recorded"
    problem, _ = problem_upload(
        name=f"{stem}.py",
        data=recording.reference.encode("utf-8", "replace"),
        user=user,
        origin=Problem.Origin.IMPORT,
        level=recording.level,
        precision=recording.precision,
        gradients=recording.gradients,
    )
    device = _device(recording)
    run = Run.objects.create(
        problem=problem,
        device=device,
        title=clip(recording.title, 160),
        proposer="imported",
        params=_params(recording).to_json(),
        seed=recording.seed or 0,
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
    failures_keep(run=run, nodes=[nodes[step.number] for step in recording.steps], now=now)
    if (memory := recording.memory) is not None:
        memory_recorded(run_id=run.pk, choice=memory.choice, elsewhere=memory.elsewhere, toolchain=memory.toolchain)
    return run


def _device(recording: Recording) -> Device:
    """Owns the figures. One whose figures a time model made is no reported device.

    Its row is locked: who removes the only other search on it at this moment would take it away.
    """
    hardware = recording.hardware
    if recording.modelled:
        name = MODELLED_ELSEWHERE + hardware.removeprefix("MODELLED ")
        title = f"Time model of {hardware.removeprefix('MODELLED ')} elsewhere (not ours)"
    else:
        name, title = f"external:{hardware}", f"{hardware} (reported, not ours)"
    return external_device(name=name, title=title)


def _params(recording: Recording) -> SearchParams:
    """Those of the exported run, or the defaults where a file has none, or another version's."""
    try:
        return SearchParams.of_run(recording.params) if recording.params else SearchParams()
    except (ValueError, TypeError):
        return SearchParams()


def _evaluation(step: RecordedStep, problem: Problem, device: Device) -> Evaluation:
    verdict = verdict_of_step(step)
    passed = verdict is Verdict.PASS
    source = storable_text(step.code)
    return Evaluation(
        problem=problem,
        device=device,
        candidate_hash=canonical_hash(source),
        source=source,
        protocol=PROTOCOL_ELSEWHERE,
        toolchain="as published",
        verdict=verdict.value,
        stage="reported",
        reason="" if passed else f"reported.{verdict.value}",
        message=clip(step.error, 4000),
        loads=step.loads,
        report={"reported": storable(step.figures)},
        speedup=step.speedup,
        **_evidence(step),
    )


def _evidence(step: RecordedStep) -> dict[str, Any]:
    """The basis of the speedup: a range and an audit where a time model made it, else a report."""
    if step.speedup is None:
        return {"basis": ""}
    if (modelled := step.modelled) is None:
        return {"basis": Basis.REPORTED.value}
    ends = {"speedup_low": modelled.low, "speedup_high": modelled.high, "speedup_n": modelled.n}
    return {"basis": Basis.MODELLED.value, "audit": modelled.audit.value, **ends}


def _nodes_create(run: Run, recording: Recording, evaluations: list[Evaluation], now: datetime) -> dict[int, Node]:
    """All nodes by number, inserted level by level: a parent needs its row before its children."""
    nodes = {0: root_create(run=run)}
    levels: dict[int, list[tuple[int, RecordedStep]]] = defaultdict(list)
    depths = {0: 0}
    for order, step in enumerate(recording.steps, start=1):
        depths[step.number] = depths[step.parent] + 1
        levels[depths[step.number]].append((order, step))
    for depth in sorted(levels):
        rows = [
            _node(run, step, nodes[step.parent], evaluations[order - 1], now, order) for order, step in levels[depth]
        ]
        for node in Node.objects.bulk_create(rows, batch_size=BATCH):
            nodes[node.number] = node
    Node.objects.bulk_create((_withdrawn(run, gone, nodes[gone.parent]) for gone in recording.withdrawn), BATCH)
    return nodes


def _withdrawn(run: Run, gone: Withdrawn, parent: Node) -> Node:
    return Node(
        run=run,
        number=gone.number,
        parent=parent,
        kind=gone.kind,
        state=Node.State.CANCELLED,
        reason="cancelled",
        message=WITHDRAWN,
    )


def _node(run: Run, step: RecordedStep, parent: Node, evaluation: Evaluation, now: datetime, order: int) -> Node:
    return Node(
        run=run,
        number=step.number,
        parent=parent,
        kind=step.kind,
        context=list(step.context),
        state=Node.State.COMPLETED,
        source=evaluation.source,
        source_hash=evaluation.candidate_hash if step.code else "",
        sketch=sketch(evaluation.source),
        evaluation=evaluation,
        fingerprint=fingerprint_of(evaluation, "", ""),
        summary=storable_text(step.summary),
        touched=step.touched,
        told_order=order,
        told_at=now,
    )


def _events_create(run: Run, recording: Recording, nodes: dict[int, Node], user: AbstractBaseUser | None) -> None:
    """The log the run would have written, so that it can be browsed and scrubbed like any other."""
    events = [
        RunEvent(run=run, seq=seq, kind=event.name, payload=event.to_json(), actor=user)  # type: ignore[misc]
        for seq, event in enumerate(_log(run, recording, nodes), start=1)
    ]
    RunEvent.objects.bulk_create(events, batch_size=BATCH)
    run.event_seq = len(events)
    run.save(update_fields=["event_seq"])


def _log(run: Run, recording: Recording, nodes: dict[int, Node]) -> Iterator[Event]:
    device = run.device.name
    yield RunStarted(steps=run.steps, proposer=run.proposer, device=device, imported=True)
    best: Node | None = None
    acts = deque(recording.acts)
    for told_before, step in enumerate(recording.steps):
        yield from _history(acts, told_before)
        node = nodes[step.number]
        yield NodeReserved(number=step.number, parent=step.parent, kind=step.kind, context=list(step.context)[:50])
        yield NodeProposed(number=step.number, source_hash=node.source_hash, summary="")
        yield NodeJudging(number=step.number, device=device)
        yield completed_event(node, node.evaluation)
        if node.evaluation and is_better(node.number, node.evaluation, best):
            best = node
            yield best_event(node, node.evaluation)
    yield from _history(acts, len(recording.steps), rest=True)
    for gone in recording.withdrawn:
        yield NodeReserved(number=gone.number, parent=gone.parent, kind=gone.kind, context=[])
        yield NodeCancelled(number=gone.number, why=WITHDRAWN)
    yield RunEnded(state=run.state, reason="", told=run.steps, best=best.number if best else None)


def _history(acts: deque[RecordedAct], told: int, *, rest: bool = False) -> Iterator[Event]:
    """What people had done before node `told` + 1 had its verdict: as history, which nothing acts on."""
    while acts and (rest or acts[0].told <= told):
        yield acts.popleft()


FOLDER = "recorded_searches"
ENDINGS = (".json.gz", ".json", ".zip")
MOST = 60


@dataclass(frozen=True)
class RecordedFile:
    """One file by name, with its size in bytes."""

    name: str
    size: int


def recorded_files() -> list[RecordedFile]:
    """Files that can be imported, by name; none where the variable is not set or names no folder."""
    folder = _folder()
    if folder is None:
        return []
    try:
        found = sorted(path for path in folder.iterdir() if path.name.endswith(ENDINGS) and path.is_file())
        return [RecordedFile(path.name, path.stat().st_size) for path in found[:MOST]]
    except OSError:
        return []


def recorded_read(name: str) -> bytes | None:
    """The bytes of a file that `recorded_files` lists; None for any other name. Raises OSError."""
    folder = _folder()
    if folder is None or name not in {file.name for file in recorded_files()}:
        return None
    return (folder / name).read_bytes()


def _folder() -> Path | None:
    named = env.text("ADAEXPLORE_FIXTURES")
    return Path(named) / FOLDER if named else None
