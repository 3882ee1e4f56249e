"""Judges whatever waits in a folder or at a server, until it is stopped. No Django."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from typing import Any, Protocol

from judge.batch.command import Say, answer, sealing_for, summary
from judge.batch.folder import LEASE_S, Folder, Waiting
from judge.batch.lines import BadLine, Sealing, SentJob, outcome_line, read_job
from judge.bench.processes.stopping import stoppable
from judge.bench.runner import Bench
from judge.devices.keys import DeviceKey
from judge.values import AdmissionReport, Job, Outcome, Stopped

POLL_S = 1.0
RENEW_S = LEASE_S / 4
WANTED_S = 1.0  # between two looks at whether a job is still wanted


@dataclass(frozen=True)
class Taken:
    """A job that is ours until it is put or released."""

    token: str
    line: bytes


class Place(Protocol):
    """Where jobs come from and outcomes go. OSError: it cannot be reached now, and is asked again."""

    def take(self) -> Taken | None:
        """The most urgent job that nobody works on."""

    def renew(self, taken: Taken) -> bool:
        """Keep it; False when it was given to another one, or nobody waits for it any more. Asked every WANTED_S."""

    def put(self, taken: Taken, line: bytes) -> bool:
        """Hand in its outcome; False when another one was first."""

    def release(self, taken: Taken) -> None:
        """Let another one take it at once."""

    def refuse(self, taken: Taken, why: str) -> None:
        """It cannot be judged here, and is not offered again."""


class FolderPlace:
    """The jobs of one device in a folder. Half-copied files, and jobs of other devices, are passed over."""

    def __init__(self, folder: Folder, device: str, *, clock: Callable[[], float] = time.monotonic) -> None:
        self.folder, self.device = folder, device
        self._passed: set[str] = set()  # tokens of whole files that are no jobs for this device
        self._clock = clock
        self._held: tuple[Waiting, float] | None = None  # and when its claim was last renewed

    def take(self) -> Taken | None:
        for job in self.folder.waiting():
            if job.token in self._passed or self.folder.answered(job.token):
                continue
            line = self._line(job)
            if line is not None and self.folder.claim(job.token):
                if self.folder.answered(job.token):  # meanwhile
                    self.folder.release(job.token)
                    continue
                self._held = job, self._clock()
                return Taken(job.token, line)
        return None

    def renew(self, taken: Taken) -> bool:
        job, since = self._held or (None, 0.0)
        if job is not None and job.token == taken.token:
            if not self.folder.holds(job):  # it was withdrawn
                return False
            if self._clock() - since < RENEW_S:
                return True
            self._held = job, self._clock()
        return self.folder.renew(taken.token)

    def put(self, taken: Taken, line: bytes) -> bool:
        return self.folder.put(taken.token, line)

    def release(self, taken: Taken) -> None:
        self.folder.release(taken.token)

    def _line(self, job: Waiting) -> bytes | None:
        line = self.folder.read(job)
        if line is None:
            return None
        try:
            device = json.loads(line)["device"]
        except (ValueError, KeyError, TypeError, RecursionError):
            return None  # half-copied, at a line end by chance
        if device != self.device:
            self._passed.add(job.token)
            return None
        return line

    def refuse(self, taken: Taken, why: str) -> None:
        self._passed.add(taken.token)
        self.folder.refuse(taken.token, why)
        self.folder.release(taken.token)


@dataclass
class Served:
    """What came of it."""

    judged: int = 0
    refused: int = 0  # lines that are no job for this device
    late: int = 0  # another one was first
    stopped: int = 0  # nobody waited for them any more


def serve(
    place: Place,
    *,
    bench: Bench,
    key: DeviceKey,
    fingerprint: Callable[[], dict[str, Any] | None],
    say: Say,
    once: bool = False,
    most_s: float | None = None,
    sleep: Callable[[float], None] = time.sleep,
) -> Served:
    """Judge job after job; with `once` until none is left. `most_s`: no evaluation may take longer, whatever its job
    says. `fingerprint` is asked before each job; while it is None nothing is judged. KeyboardInterrupt ends it: the job
    at hand is released first.

    Raises JudgeError when the bench does not start.
    """
    served, away = Served(), False
    while True:
        mark = fingerprint()
        if mark is None:
            if once:
                return served
            sleep(POLL_S)
            continue
        try:
            taken = place.take()
            away = _back(away, say)
        except OSError as error:
            away = _away(away, error, say)
            taken = None
        if taken is None:
            if once and not away:
                return served
            sleep(POLL_S)
            continue
        try:
            sent = read_job(taken.line, key)
        except BadLine as error:
            served.refused += 1
            say(f"{taken.token} is refused: {error}")
            _hand(partial(place.refuse, taken, str(error)), say, sleep)
            continue
        found = _judged(place, taken, sent, bench, most_s)
        if found is None:
            served.stopped += 1
            say(f"{sent.name} is not wanted any more: it was stopped")
            continue
        outcome, sealing = found
        now = datetime.now(UTC).isoformat(timespec="seconds")
        line = outcome_line(sent, outcome, fingerprint=mark, judged_at=now, key=key, sealing=sealing)
        first = _hand(partial(place.put, taken, line), say, sleep)
        served.judged += first
        served.late += not first
        say(f"{sent.name}: {summary(outcome)}{'' if first else ', but another one was first'}")


def _judged(
    place: Place, taken: Taken, sent: SentJob, bench: Bench, most_s: float | None
) -> tuple[Outcome | AdmissionReport, Sealing | None] | None:
    """What comes of a job, its claim kept meanwhile, and released where this is interrupted. None where nobody waits
    for it any more: its processes are ended."""
    try:
        with _kept(place, taken) as unwanted, stoppable(unwanted.is_set):
            outcome = answer(bench, _bounded(sent.job, most_s))
            return outcome, sealing_for(bench, sent, outcome)
    except Stopped:
        _try(partial(place.release, taken))
        return None
    except BaseException:
        _try(partial(place.release, taken))
        raise


def _bounded(job: Job, most_s: float | None) -> Job:
    if most_s is None or job.limits.wall_s <= most_s:
        return job
    return replace(job, limits=replace(job.limits, wall_s=most_s, stage_s=min(job.limits.stage_s, most_s)))


@contextmanager
def _kept(place: Place, taken: Taken) -> Iterator[threading.Event]:
    """Renew the claim from a thread while the body works; a killed process stops renewing by itself. The event is set
    once the job is not wanted from here any more. A place that is away says nothing of that."""
    done, unwanted = threading.Event(), threading.Event()

    def renew() -> None:
        while not done.wait(WANTED_S):
            if _try(partial(place.renew, taken)) is False:
                unwanted.set()
                return

    thread = threading.Thread(target=renew, name="claim", daemon=True)
    thread.start()
    try:
        yield unwanted
    finally:
        done.set()
        thread.join(1.0)  # one that waits for a server ends with the process


def _hand(do: Callable[[], Any], say: Say, sleep: Callable[[float], None]) -> Any:
    """Until it succeeds: an outcome is not thrown away because a disk or server is gone for a while."""
    away = False
    while True:
        try:
            found = do()
        except OSError as error:
            away = _away(away, error, say)
            sleep(POLL_S)
        else:
            _back(away, say)
            return found


def _try(do: Callable[[], Any]) -> Any:
    try:
        return do()
    except (OSError, ValueError):  # away, or refused, which is told when the outcome is handed in
        return None  # the claim runs out by itself


def _away(away: bool, error: OSError, say: Say) -> bool:
    if not away:
        say(f"jobs cannot be reached ({error}); trying again")
    return True


def _back(away: bool, say: Say) -> bool:
    if away:
        say("jobs can be reached again")
    return False
