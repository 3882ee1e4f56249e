"""The files of a batch: signed jobs and outcomes as lines, and an outcome file that one process writes."""

from __future__ import annotations

import dataclasses
import fcntl
import hashlib
import json
import os
import re
import secrets
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from judge.bench.exchange import seal
from judge.devices.keys import DeviceKey
from judge.values import (
    PROTOCOL,
    AdmissionReport,
    Job,
    Limits,
    Outcome,
    Policy,
    ProblemSpec,
    SealedCase,
    canonical_hash,
)
from judge.values.rebuilding import MALFORMED

JOB, PREFLIGHT = "job", "preflight"  # what is asked
OUTCOME, REPORT = "outcome", "report"  # what is answered
MAX_LINE = 32 << 20
ABOUT_CHARS = 200
MOST_CASES = 64


@dataclass(frozen=True)
class Sealing:
    """Sealed cases that another machine has derived, and the seed that it drew for them."""

    seed: str
    cases: tuple[SealedCase, ...]

    def to_json(self) -> dict[str, Any]:
        return {"seed": self.seed, "cases": [dataclasses.asdict(case) for case in self.cases]}


class BadLine(Exception):
    """A line that must not be used; the text says why, without its content."""


@dataclass(frozen=True)
class SentJob:
    """A job as it lies in a file. `device` is the name it was made for; empty when it is not signed. Where only the
    problem's preflight is asked for, the job has no candidate.
    """

    job: Job
    nonce: str
    device: str
    digest: str  # sha256 of the canonical body: what an outcome answers
    about: str = ""  # what it is to people, such as "row_softmax, search 7, node 12"
    seal: bool = False  # a preflight that passes derives sealed cases, too

    @property
    def name(self) -> str:
        """For whoever watches."""
        return self.about or f"job {self.job.id[:12]}"

    @property
    def preflight(self) -> bool:
        return not self.job.candidate


@dataclass(frozen=True)
class Returned:
    """An outcome as it came back, of a preflight its report; a fault of the judge is an outcome of either. `device`
    and `key_id` are empty when it is unsigned.
    """

    id: str
    nonce: str
    protocol: str
    device: str
    key_id: str
    job: str  # the digest of the job it answers
    problem_hash: str
    candidate_hash: str
    fingerprint: dict[str, Any] = field(repr=False)
    judged_at: str
    outcome: Outcome | AdmissionReport = field(repr=False)
    digest: str
    sealing: Sealing | None = field(default=None, repr=False)  # never in a log

    @property
    def signed(self) -> bool:
        return bool(self.key_id)


def job_line(
    job: Job, *, nonce: str, device: str = "", key: DeviceKey | None = None, about: str = "", seal_too: bool = False
) -> bytes:
    """One line without its end. Signed with `key`, for the device of that key."""
    body = job_body(job, nonce=nonce, device=key.device if key else device, about=about, seal_too=seal_too)
    return _closed(body, key)


def job_body(job: Job, *, nonce: str, device: str, about: str = "", seal_too: bool = False) -> dict[str, Any]:
    """Everything that the signature covers."""
    problem = job.problem
    return ({"about": about} if about else {}) | ({"seal": True} if seal_too else {}) | {
        "kind": JOB if job.candidate else PREFLIGHT,
        "id": job.id,
        "nonce": nonce,
        "protocol": PROTOCOL,
        "device": device,
        "problem": {
            "source": problem.source,
            "hash": problem.hash,
            "case": problem.case,
            "policy": problem.policy.to_json(),
            "sealed": [dataclasses.asdict(case) for case in problem.sealed],
        },
        "candidate": job.candidate,
        "incumbent": job.incumbent,
        "stages": {"timing": job.timing, "beat": None if job.beat in (None, float("inf")) else job.beat,
                   "audit": job.beat != float("inf")},
        "limits": dataclasses.asdict(job.limits),
    }  # fmt: skip


def digest_of(body: dict[str, Any]) -> str:
    return hashlib.sha256(seal.canonical(body)).hexdigest()


def read_job(line: bytes, key: DeviceKey | None) -> SentJob:
    """With a key, only what was signed for its device is a job. Without, whatever is well-formed. Raises BadLine."""
    body, mac = _opened(line)
    if key is not None:
        _require_mac(body, mac, key, line)
    try:
        if body.get("kind", JOB) not in (JOB, PREFLIGHT):
            raise BadLine(f"it holds a {str(body['kind'])[:20]}, no job")
        if body.get("protocol", PROTOCOL) != PROTOCOL:
            raise BadLine(
                f"it asks for protocol {str(body['protocol'])[:40]}, this judge speaks {PROTOCOL}: export again"
            )
        nonce = str(body.get("nonce") or secrets.token_hex(16))
        job = _job(body)
    except MALFORMED as error:
        raise BadLine(f"it is no complete job ({type(error).__name__}: {error})"[:300]) from error
    return SentJob(job, nonce, str(body.get("device", "")), digest_of(body), _about(body), body.get("seal") is True)


def _cases(rows: Any) -> tuple[SealedCase, ...]:
    return tuple(
        SealedCase(str(row["name"]), dict(row["constants"]), bool(row.get("derived")), str(row.get("change", "")))
        for row in rows
    )


def _sealing(given: dict[str, Any]) -> Sealing:
    seed, cases = str(given["seed"]), _cases(given["cases"])
    if not re.fullmatch(r"[0-9a-f]{32}", seed) or len(cases) > MOST_CASES:
        raise ValueError("sealed cases without a seed, or too many")
    return Sealing(seed, cases)


def _about(body: dict[str, Any]) -> str:
    text = str(body.get("about", ""))[:ABOUT_CHARS]
    return text if text.isprintable() else ""


def _job(body: dict[str, Any]) -> Job:
    given = body["problem"]
    sealed = _cases(given.get("sealed", ()))
    problem = ProblemSpec(_text(given["source"]), given.get("case"), Policy.from_json(given.get("policy", {})), sealed)
    if given.get("hash", problem.hash) != problem.hash:
        raise BadLine("the problem's hash does not fit its source and policy")
    stages, incumbent = body.get("stages", {}), body.get("incumbent")
    beat = stages.get("beat")
    return Job(
        id=_id(body["id"]),
        problem=problem,
        candidate="" if body.get("kind") == PREFLIGHT else _source(body["candidate"]),
        limits=Limits(**body.get("limits", {})),
        timing=bool(stages.get("timing", True)),
        beat=(float(beat) if beat is not None else None) if stages.get("audit", True) else float("inf"),
        incumbent=None if incumbent is None else _text(incumbent),
    )


def outcome_line(
    sent: SentJob,
    outcome: Outcome | AdmissionReport,
    *,
    fingerprint: dict[str, Any],
    judged_at: str,
    key: DeviceKey | None,
    sealing: Sealing | None = None,
) -> bytes:
    """The answer to one job, signed when there is a key. It repeats neither problem nor sealed cases; those that were
    derived for it go back with it."""
    body = ({"sealed": sealing.to_json()} if sealing is not None else {}) | {
        "kind": REPORT if isinstance(outcome, AdmissionReport) else OUTCOME,
        "id": sent.job.id,
        "nonce": sent.nonce,
        "protocol": PROTOCOL,
        "device": key.device if key else "",
        "key": key.id if key else "",
        "job": sent.digest,
        "problem": sent.job.problem.hash,
        "candidate": candidate_hash(sent.job.candidate),
        "fingerprint": fingerprint,
        "judged_at": judged_at,
        "outcome": outcome.to_json(),
    }
    return _closed(body, key)


def read_outcome(line: bytes, keys: dict[str, DeviceKey]) -> Returned:
    """Check form and, when it says it is signed, the signature; `keys` by device name. Raises BadLine."""
    body, mac = _opened(line)
    try:
        if body["kind"] not in (OUTCOME, REPORT):
            raise BadLine(f"it holds a {str(body['kind'])[:20]}, no outcome")
        device, claimed = str(body["device"]), str(body["key"])
        if mac is not None or claimed or device:
            key = keys.get(device)
            if key is None:
                raise BadLine(f"it is signed by a device {device[:60]!r} that is not enrolled here")
            if key.id != claimed:
                raise BadLine(f"it is signed with another key than the one enrolled for {device!r}")
            _require_mac(body, mac, key, line)
        return Returned(
            id=_id(body["id"]),
            nonce=str(body["nonce"]),
            protocol=str(body["protocol"]),
            device=device,
            key_id=claimed,
            job=str(body["job"]),
            problem_hash=str(body["problem"]),
            candidate_hash=str(body["candidate"]),
            fingerprint=dict(body["fingerprint"]),
            judged_at=str(body["judged_at"]),
            outcome=(AdmissionReport if body["kind"] == REPORT else Outcome).from_json(body["outcome"]),
            digest=digest_of(body),
            sealing=_sealing(body["sealed"]) if "sealed" in body else None,
        )
    except MALFORMED as error:
        raise BadLine(f"it is no complete outcome ({type(error).__name__})") from error


def _closed(body: dict[str, Any], key: DeviceKey | None) -> bytes:
    mac = seal.sign(body, key=key.secret, nonce=str(body["nonce"])) if key else None
    return seal.canonical({**body, "mac": mac})


def _opened(line: bytes) -> tuple[dict[str, Any], str | None]:
    if len(line) > MAX_LINE:
        raise BadLine(f"it is longer than {MAX_LINE >> 20} MiB")
    try:
        body = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise BadLine("it is not JSON; was it cut off?") from error
    if not isinstance(body, dict):
        raise BadLine("it is no JSON object")
    mac = body.pop("mac", None)
    return body, mac if isinstance(mac, str) else None


def _require_mac(body: dict[str, Any], mac: str | None, key: DeviceKey, line: bytes) -> None:
    if mac is None:
        raise BadLine("it is not signed")
    try:
        genuine = seal.verified(body, mac, key=key.secret, nonce=str(body.get("nonce", "")))
    except (TypeError, ValueError, RecursionError):  # no signature could be like this
        genuine = False
    if not genuine:
        raise BadLine("its signature does not fit: it was altered, or signed with another key")
    if seal.canonical({**body, "mac": mac}) != line:
        raise BadLine("it is not in the form that was signed: something rewrote the file")


def candidate_hash(source: str) -> str:
    """As in an outcome: empty where only a preflight was asked for."""
    return canonical_hash(source) if source else ""


def _source(value: object) -> str:
    if not value:
        raise ValueError("an empty candidate")
    return _text(value)


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError("sources are text")
    return value


def _id(value: object) -> str:
    if not isinstance(value, str) or not 0 < len(value) <= 64 or not value.isprintable():
        raise TypeError("an id is 1 to 64 printable characters")
    return value


class Busy(Exception):
    """Somebody else writes this file."""


class OutcomeFile:
    """Use as a context manager. Raises Busy when another process has it open, OSError when it cannot be written."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            os.close(self._fd)
            raise Busy(f"another process writes {path}") from error
        self._drop_torn_end()

    def finished(self) -> set[tuple[str, str]]:
        """(id, nonce) of every job that has its outcome here."""
        return {key for key in map(_key, self._lines()) if key is not None}

    def append(self, line: bytes) -> None:
        """Write a line so that it is on the disk, whole, when this returns."""
        data = memoryview(line + b"\n")
        while data:
            data = data[os.write(self._fd, data) :]
        os.fsync(self._fd)

    def _lines(self) -> Iterator[bytes]:
        with self.path.open("rb") as file:
            yield from file

    def _drop_torn_end(self) -> None:
        """Cut off what a killed writer left of its last line."""
        size = whole = 0
        for line in self._lines():
            size += len(line)
            if line.endswith(b"\n"):
                whole = size
        os.ftruncate(self._fd, whole)
        os.lseek(self._fd, whole, os.SEEK_SET)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        os.close(self._fd)


def _key(line: bytes) -> tuple[str, str] | None:
    try:
        body = json.loads(line)
        return str(body["id"]), str(body["nonce"])
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
