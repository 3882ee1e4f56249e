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

from adaexplore_site.core.text import clip
from judge.batch.lines import (
    ABOUT_CHARS,
    BadLine,
    Returned,
    candidate_hash,
    digest_of,
    job_body,
    job_line,
    read_outcome,
)
from judge.batch.machines import OutcomesRefused as OutcomesRefused
from judge.batch.machines import machine_check, noise_keep, refused
from judge.batch.models import BatchJob
from judge.batch.preflights import origin_of, report_keep, seals
from judge.devices.keys import DeviceKey
from judge.devices.models import Device
from judge.evaluations.models import Evaluation
from judge.evaluations.services import case_of, evaluation_store
from judge.problems.admission import PREFLIGHT_LIMITS
from judge.problems.models import Problem, SealedSet
from judge.sources.checks import case_for, declared_cases
from judge.values import PROTOCOL, UNCACHED, AdmissionReport, Audit, Basis, Job, Limits, Outcome, Verdict

LIMITS = Limits(wall_s=180, stage_s=60)  # with an audit


@dataclass(frozen=True)
class Request:
    """What a device is asked: to judge a kernel, or without a `source` the preflight of a problem.

    `beat` and `incumbent` as in Job: who is not faster than the best so far is not audited, and who is meets it.
    """

    problem: Problem
    source: str = ""
    beat: float | None = None
    incumbent: str = ""
    about: str = ""  # who asks, such as "search 7, node 12"


@dataclass(frozen=True)
class Lost:
    """A job that met a fault of the judge, and what the other machine said of it."""

    job: BatchJob
    outcome: Outcome


@dataclass(frozen=True)
class Imported:
    """What an import did. `evaluations` are new; `known` were there before; `unsigned` are new, and only to look at;
    `preflights` are jobs whose report is new; `lost` are jobs that met a fault of the judge and wait again.
    """

    evaluations: tuple[Evaluation, ...] = ()
    known: tuple[Evaluation, ...] = ()
    unsigned: tuple[Evaluation, ...] = ()
    preflights: tuple[BatchJob, ...] = ()
    lost: tuple[Lost, ...] = ()


def jobs_export(*, requests: Sequence[Request], device: Device) -> list[BatchJob]:
    """A job for each request, which `signed_line` writes out. What still waits for its outcome leaves again as the same
    job, with the best of its first export."""
    with transaction.atomic():
        Device.objects.select_for_update(no_key=True).get(pk=device.pk)  # of two exports at once the later one repeats
        known = _Known(requests, device)
        return [_job(request, device, known) for request in requests]


def signed_line(row: BatchJob, key: DeviceKey) -> bytes:
    """An exported job as it leaves."""
    return job_line(_sent(row), nonce=row.nonce, key=key, about=row.about, seal_too=_seal_too(row))


class _Known:
    """Sealed cases and waiting jobs of all that is asked for, in two queries."""

    def __init__(self, requests: Sequence[Request], device: Device) -> None:
        problems = {request.problem.pk for request in requests}
        hashes = {candidate_hash(request.source) for request in requests}
        sets = SealedSet.objects.filter(problem__in=problems).order_by("number")
        self._sets = {(row.problem_id, row.case): row for row in sets}  # the newest of each
        rows = BatchJob.objects.filter(device=device, problem__in=problems, imported_at=None)
        self._jobs: dict[tuple[int, str, int | None], list[BatchJob]] = {}
        for row in rows.filter(candidate_hash__in=hashes).order_by("-id"):
            self._jobs.setdefault((row.problem_id, row.candidate_hash, row.sealed_set_id), []).append(row)

    def sealed(self, problem: Problem, case: str | None) -> SealedSet | None:
        return self._sets.get((problem.pk, case or ""))

    def jobs(self, problem: Problem, candidate: str, sealed: SealedSet | None) -> list[BatchJob]:
        return self._jobs.get((problem.pk, candidate, sealed.pk if sealed else None), [])


def _job(request: Request, device: Device, known: _Known) -> BatchJob:
    problem, candidate = request.problem, candidate_hash(request.source)
    sealed = known.sealed(problem, case_of(problem, device)) if request.source else None
    for row in known.jobs(problem, candidate, sealed):
        row.problem, row.device, row.sealed_set = problem, device, sealed
        if digest_of(_body(row)) == row.digest:
            return row
    row = BatchJob(
        uid=uuid.uuid4().hex,
        nonce=secrets.token_hex(16),
        device=device,
        problem=problem,
        candidate_hash=candidate,
        source=request.source,
        beat=request.beat,
        incumbent=request.incumbent,
        sealed_set=sealed,
        about=clip(f"{problem.slug}, {request.about or 'preflight'}", ABOUT_CHARS),
    )
    row.digest = digest_of(_body(row))
    row.save()
    return row


def _body(row: BatchJob) -> dict[str, Any]:
    return job_body(_sent(row), nonce=row.nonce, device=row.device.name, about=row.about, seal_too=_seal_too(row))


def _seal_too(row: BatchJob) -> bool:
    return row.preflight and seals(row.problem, case_for(row.device.kind, declared_cases(row.problem.source)))


def _sent(row: BatchJob) -> Job:
    problem, device = row.problem, row.device
    if row.preflight:
        case = case_for(device.kind, declared_cases(problem.source))
        return Job(id=row.uid, problem=problem.spec(case), candidate="", limits=PREFLIGHT_LIMITS)
    return Job(
        id=row.uid,
        problem=problem.spec(case_of(problem, device), row.sealed_set),
        candidate=row.source,
        limits=LIMITS,
        beat=row.beat,
        incumbent=row.incumbent or None,
    )


def outcomes_import(*, data: bytes, keys: dict[str, DeviceKey], accept_unsigned: bool = False) -> Imported:
    """Store the outcomes of a file, all of them or none. The same file again changes nothing.

    Raises OutcomesRefused for a line that is altered, unasked for, contradicts an earlier one, or is unsigned without
    `accept_unsigned`; unsigned outcomes are stored without a speedup, on a device of their own.
    """
    found = _read(data, keys)
    for number, line in found:
        if not line.signed and not accept_unsigned:
            raise refused(number, line.id, "it is unsigned; --accept-unsigned keeps it to look at, never as a best")
    with transaction.atomic():
        jobs = _locked(found)
        results = [_take(number, line, jobs.get(line.id)) for number, line in found]
    done = Imported()
    for one in results:
        done = Imported(*(mine + its for mine, its in zip(_parts(done), _parts(one), strict=True)))
    return done


def _parts(done: Imported) -> list[tuple[Any, ...]]:
    return [getattr(done, part.name) for part in dataclasses.fields(done)]


def _read(data: bytes, keys: dict[str, DeviceKey]) -> list[tuple[int, Returned]]:
    if data and not data.endswith(b"\n"):
        raise OutcomesRefused("The file ends in the middle of a line: is it still being written? Nothing was imported.")
    found: list[tuple[int, Returned]] = []
    for number, line in enumerate(data.split(b"\n")[:-1], start=1):
        try:
            found.append((number, read_outcome(line, keys)))
        except BadLine as bad:
            raise OutcomesRefused(f"Line {number}: {bad}. Nothing was imported.", str(bad)) from bad
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
    found_jobs = {row.uid: row for row in jobs.select_related("problem", "evaluation", "sealed_set")}
    for job in found_jobs.values():
        job.device = devices[
            job.device_id
        ]  # one value for all: what the first line teaches about it holds for the next
    return found_jobs


def _take(number: int, line: Returned, job: BatchJob | None) -> Imported:
    """What one line adds; the same outcome again finds its first evaluation. Raises OutcomesRefused."""
    if job is None:
        raise refused(number, line.id, "no such job was exported from here")
    if line.signed and line.digest in job.lost:
        return Imported()
    _check(number, line, job)
    if not line.signed:
        return _keep_unsigned(number, line, job)
    if job.imported_at is not None and job.outcome_digest == line.digest:
        return Imported(known=(job.evaluation,) if job.evaluation else ())
    if job.imported_at is not None:
        raise refused(number, line.id, "the job has another outcome already; export it anew to measure again")
    if isinstance(line.outcome, Outcome) and line.outcome.verdict in UNCACHED:
        return _wait_again(line, line.outcome, job)
    if isinstance(line.outcome, AdmissionReport):
        report_keep(line, line.outcome, job)
        taken = Imported(preflights=(job,))
    else:
        taken = _keep(line, job)
    noise_keep(number, line, job.device)
    job.outcome_digest, job.imported_at = line.digest, timezone.now()
    job.refusal = ""
    job.save(update_fields=["evaluation", "outcome_digest", "imported_at", "refusal"])
    return taken


def _keep(line: Returned, job: BatchJob) -> Imported:
    job.evaluation = evaluation_store(
        problem=job.problem,
        device=job.device,
        source=job.source,
        toolchain=str(line.fingerprint["toolchain"])[:120],
        outcome=_withorigin_of(line),
        incumbent=job.incumbent or None,
        spec=_sent(job).problem,
        sealed_set=job.sealed_set,
        gpu=str((line.fingerprint.get("gpu") or {}).get("uuid") or ""),
    )
    return Imported(evaluations=(job.evaluation,))


def _wait_again(line: Returned, outcome: Outcome, job: BatchJob) -> Imported:
    """A fault of the judge says nothing about the kernel: the job waits for another outcome."""
    return Imported(lost=(_left_anew(job, line.digest, outcome),))


def job_returned(*, token: str, reason: str, device: Device) -> Lost | None:
    """Count a job that came back without an outcome that could be used: it waits for another one, and says why. None
    where it does not wait as it was taken: it was answered, or has left anew since."""
    uid, _, nonce = token.partition(".")
    with transaction.atomic():
        jobs = BatchJob.objects.select_for_update(of=("self",)).select_related("problem", "device", "sealed_set")
        job = jobs.filter(uid=uid, nonce__startswith=nonce, imported_at=None, device=device).first()
        if job is None:
            return None
        job.refusal = clip(reason, 300)
        outcome = Outcome(Verdict.LOST, stage="judge", reason="judge.failed", message=reason[:2000])
        return _left_anew(job, f"refused {job.nonce}", outcome)


def _left_anew(job: BatchJob, digest: str, outcome: Outcome) -> Lost:
    """The job under a new nonce, free for whoever asks; `digest` tells what came of it until now."""
    job.lost = [*job.lost, digest]
    job.nonce, job.lease_until = secrets.token_hex(16), None
    job.digest = digest_of(_body(job))
    job.save(update_fields=["lost", "nonce", "lease_until", "digest", "refusal"])
    return Lost(job, outcome)


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
            raise refused(number, line.id, reason)
    if isinstance(line.outcome, AdmissionReport) and not job.preflight:
        raise refused(number, line.id, "it holds a preflight, and a verdict was asked for")
    if job.preflight and isinstance(line.outcome, Outcome) and line.outcome.verdict not in UNCACHED:
        raise refused(number, line.id, "it holds a verdict, and a preflight was asked for")
    if line.signed:
        machine_check(number, line, job.device)


def _keep_unsigned(number: int, line: Returned, job: BatchJob) -> Imported:
    if isinstance(line.outcome, AdmissionReport) or job.preflight:
        raise refused(number, line.id, "an unsigned preflight admits nothing: judge it with the key of the device")
    known = job.unsigned.get(line.digest)
    if known is not None:
        return Imported(known=(Evaluation.objects.get(pk=known),))
    device, _ = Device.objects.get_or_create(
        name=f"external:unsigned {job.device.name}"[:60],
        defaults={"kind": Device.Kind.EXTERNAL, "title": f"{job.device.name}, unsigned"[:120]},
    )
    outcome = _withorigin_of(line)
    timings = tuple(dataclasses.replace(timing, basis=Basis.REPORTED) for timing in outcome.timings)
    outcome = dataclasses.replace(outcome, timings=timings, speedup=None, over_others={}, audit=Audit.NONE)
    row = evaluation_store(
        problem=job.problem,
        device=device,
        source=job.source,
        toolchain=str(line.fingerprint.get("toolchain", ""))[:120],
        outcome=outcome,
    )
    job.unsigned = {**job.unsigned, line.digest: row.pk}
    job.save(update_fields=["unsigned"])
    return Imported(unsigned=(row,))


def _withorigin_of(line: Returned) -> Outcome:
    """The outcome, with the way it came in its environment. Not for a preflight."""
    assert isinstance(line.outcome, Outcome)
    return dataclasses.replace(line.outcome, environment={**line.outcome.environment, "batch": origin_of(line)})


def refusal_keep(*, token: str, reason: str, device: str = "") -> None:
    """Remember why a job that still waits has no outcome, for the page of its search. A late answer to an earlier
    export, with another nonce, says nothing of the job as it waits now; nor does one from another than `device`."""
    uid, _, nonce = token.partition(".")
    jobs = BatchJob.objects.filter(uid=uid, nonce__startswith=nonce, imported_at=None)
    jobs = jobs.filter(device__name=device) if device else jobs
    jobs.update(refusal=clip(reason, 300))
