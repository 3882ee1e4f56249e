"""Jobs out, outcomes in: what leaves for a device without a worker here, and what may come back."""

from __future__ import annotations

import dataclasses
import secrets
import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from django.db import transaction
from django.utils import timezone

from judge.batch.lines import BadLine, Returned, digest_of, job_body, job_line, read_outcome
from judge.batch.models import BatchJob
from judge.devices.keys import DeviceKey
from judge.devices.models import Device
from judge.evaluations.models import Evaluation
from judge.evaluations.services import case_of, evaluation_store
from judge.problems.models import Problem
from judge.values import PROTOCOL, Audit, Basis, Job, Limits, Outcome, canonical_hash

LIMITS = Limits(wall_s=180, stage_s=60)  # every pass is audited there


class OutcomesRefused(Exception):
    """Nothing of the file was imported; the message names the line and the reason."""


@dataclass(frozen=True)
class Imported:
    """What an import did. `evaluations` are new; `known` were there before; `unsigned` are new, and only to look at."""

    evaluations: tuple[Evaluation, ...] = ()
    known: tuple[Evaluation, ...] = ()
    unsigned: tuple[Evaluation, ...] = ()


def jobs_export(
    *, candidates: Sequence[tuple[Problem, str]], device: Device, key: DeviceKey
) -> list[tuple[BatchJob, bytes]]:
    """A signed line for each (problem, source). What still waits for its outcome leaves again as the same job."""
    with transaction.atomic():
        return [_job(problem, source, device, key) for problem, source in candidates]


def _job(problem: Problem, source: str, device: Device, key: DeviceKey) -> tuple[BatchJob, bytes]:
    candidate = canonical_hash(source)
    waiting = BatchJob.objects.filter(device=device, problem=problem, candidate_hash=candidate, evaluation=None)
    for row in waiting.order_by("-id"):
        job = _sent(problem, source, device, row.uid)
        if digest_of(job_body(job, nonce=row.nonce, device=key.device)) == row.digest:
            return row, job_line(job, nonce=row.nonce, key=key)
    job, nonce = _sent(problem, source, device, uuid.uuid4().hex), secrets.token_hex(16)
    row = BatchJob.objects.create(
        uid=job.id,
        nonce=nonce,
        device=device,
        problem=problem,
        candidate_hash=candidate,
        source=source,
        digest=digest_of(job_body(job, nonce=nonce, device=key.device)),
    )
    return row, job_line(job, nonce=nonce, key=key)


def _sent(problem: Problem, source: str, device: Device, uid: str) -> Job:
    """Every pass is audited: the other machine does not know the best here."""
    return Job(id=uid, problem=problem.spec(case_of(problem, device)), candidate=source, limits=LIMITS, beat=None)


def outcomes_import(*, data: bytes, keys: dict[str, DeviceKey], accept_unsigned: bool = False) -> Imported:
    """Store the outcomes of a file, all of them or none. The same file again changes nothing.

    Raises OutcomesRefused for a line that is altered, unasked for, contradicts an earlier one, or is unsigned without
    `accept_unsigned`; unsigned outcomes are stored without a speedup, on a device of their own.
    """
    found = _read(data, keys)
    for number, line in found:
        if not line.signed and not accept_unsigned:
            raise _refused(number, line.id, "it is unsigned; --accept-unsigned keeps it to look at, never as a best")
    with transaction.atomic():
        jobs = _locked(found)
        results = [_take(number, line, jobs.get(line.id)) for number, line in found]
    signed = [result for (_, line), result in zip(found, results, strict=True) if line.signed]
    unsigned = [result for (_, line), result in zip(found, results, strict=True) if not line.signed]
    return Imported(
        evaluations=tuple(row for row, new in signed if new),
        known=tuple(row for row, new in (*signed, *unsigned) if not new),
        unsigned=tuple(row for row, new in unsigned if new),
    )


def _read(data: bytes, keys: dict[str, DeviceKey]) -> list[tuple[int, Returned]]:
    if data and not data.endswith(b"\n"):
        raise OutcomesRefused("The file ends in the middle of a line: is it still being written? Nothing was imported.")
    found: list[tuple[int, Returned]] = []
    for number, line in enumerate(data.split(b"\n")[:-1], start=1):
        try:
            found.append((number, read_outcome(line, keys)))
        except BadLine as bad:
            raise OutcomesRefused(f"Line {number}: {bad}. Nothing was imported.") from bad
    if not found:
        raise OutcomesRefused("The file holds no outcome.")
    return found


def _locked(found: Iterable[tuple[int, Returned]]) -> dict[str, BatchJob]:
    """The rows of the jobs, they and their devices locked in one order: two imports at once take turns."""
    wanted = {line.id for _, line in found}
    rows = list(BatchJob.objects.filter(uid__in=wanted).values_list("uid", "device_id"))
    numbers = {device for _, device in rows}
    devices = {row.pk: row for row in Device.objects.select_for_update().filter(pk__in=numbers).order_by("pk")}
    jobs = BatchJob.objects.select_for_update(of=("self",)).filter(uid__in=wanted).order_by("pk")
    found_jobs = {row.uid: row for row in jobs.select_related("problem", "evaluation")}
    for job in found_jobs.values():
        job.device = devices[
            job.device_id
        ]  # one value for all: what the first line teaches about it holds for the next
    return found_jobs


def _take(number: int, line: Returned, job: BatchJob | None) -> tuple[Evaluation, bool]:
    """(evaluation, new); the same outcome again finds its first evaluation. Raises OutcomesRefused."""
    if job is None:
        raise _refused(number, line.id, "no such job was exported from here")
    _check(number, line, job)
    if not line.signed:
        return _keep_unsigned(line, job)
    if job.evaluation is not None and job.outcome_digest == line.digest:
        return job.evaluation, False
    if job.evaluation is not None:
        raise _refused(number, line.id, "the job has another outcome already; export it anew to measure again")
    toolchain = str(line.fingerprint["toolchain"])[:120]
    job.evaluation = evaluation_store(
        problem=job.problem, device=job.device, source=job.source, toolchain=toolchain, outcome=_with_origin(line)
    )
    job.outcome_digest, job.imported_at = line.digest, timezone.now()
    job.save(update_fields=["evaluation", "outcome_digest", "imported_at"])
    return job.evaluation, True


def _check(number: int, line: Returned, job: BatchJob) -> None:
    """Raise OutcomesRefused unless the outcome answers exactly this job, on the device it was made for."""
    wrong = {
        "its nonce is not the one this job left with: it answers another export": line.nonce != job.nonce,
        "it answers another job than the one that left": line.job != job.digest,
        f"it was signed by {line.device!r}, the job was for {job.device.name!r}": line.signed
        and line.device != job.device.name,
        f"it speaks protocol {line.protocol!r}, this judge {PROTOCOL!r}: export the job again": line.protocol
        != PROTOCOL,
        "its candidate or problem is another": (line.candidate_hash, line.problem_hash)
        != (job.candidate_hash, job.problem.source_hash),
    }
    for reason, holds in wrong.items():
        if holds:
            raise _refused(number, line.id, reason)
    if line.signed:
        _check_fingerprint(number, line, job.device)


def _check_fingerprint(number: int, line: Returned, device: Device) -> None:
    """The machine must be the one the device stands for; the first outcome says which GPU that is."""
    mark = line.fingerprint
    if mark.get("kind") != device.kind:
        raise _refused(number, line.id, f"it was judged on {mark.get('kind')!r}, {device.name} is {device.kind!r}")
    if mark.get("arch") != device.arch:
        raise _refused(number, line.id, f"it was judged on {mark.get('arch')!r}, {device.name} is {device.arch!r}")
    if not mark.get("toolchain"):
        raise _refused(number, line.id, "it does not say with which toolchain it was judged")
    if any(timing.basis != device.basis for timing in line.outcome.timings):
        raise _refused(number, line.id, f"times on {device.name} must be {device.basis}")
    gpu = mark.get("gpu") or {}
    known = device.facts.get("uuid")
    if device.is_gpu and not gpu.get("uuid"):
        raise _refused(number, line.id, "it does not say on which GPU it was judged")
    if known and gpu.get("uuid") != known:
        raise _refused(number, line.id, f"it was judged on another GPU than {device.name}: enroll that one by itself")
    if gpu and not known:
        device.facts = {**device.facts, **{name: gpu.get(name) for name in ("uuid", "memory_mb", "driver")}}
        device.title = str(gpu.get("title") or device.title)[:120]
        device.save(update_fields=["facts", "title"])


def _keep_unsigned(line: Returned, job: BatchJob) -> tuple[Evaluation, bool]:
    known = job.unsigned.get(line.digest)
    if known is not None:
        return Evaluation.objects.get(pk=known), False
    device, _ = Device.objects.get_or_create(
        name=f"external:unsigned {job.device.name}"[:60],
        defaults={"kind": Device.Kind.EXTERNAL, "title": f"{job.device.name}, unsigned"[:120]},
    )
    timings = tuple(dataclasses.replace(timing, basis=Basis.REPORTED) for timing in line.outcome.timings)
    outcome = dataclasses.replace(_with_origin(line), timings=timings, speedup=None, over_compiled={}, audit=Audit.NONE)
    row = evaluation_store(
        problem=job.problem,
        device=device,
        source=job.source,
        toolchain=str(line.fingerprint.get("toolchain", ""))[:120],
        outcome=outcome,
    )
    job.unsigned = {**job.unsigned, line.digest: row.pk}
    job.save(update_fields=["unsigned"])
    return row, True


def _with_origin(line: Returned) -> Outcome:
    """The outcome, with the way it came in its environment."""
    origin: dict[str, Any] = {"signed": line.signed, "job": line.id, "judged_at": line.judged_at, **line.fingerprint}
    return dataclasses.replace(line.outcome, environment={**line.outcome.environment, "batch": origin})


def _refused(number: int, name: str, reason: str) -> OutcomesRefused:
    return OutcomesRefused(f"Line {number}, job {name[:12]}: {reason}. Nothing was imported.")
