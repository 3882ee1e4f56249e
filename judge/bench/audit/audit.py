"""Looks hard at a candidate that would be the best, in fresh processes. Each check is a stage record of its own."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from judge.bench.audit.launch_checks import Kernels, check_effect, note_decoys
from judge.bench.audit.physics import check_roofline
from judge.bench.audit.recount import check_recount
from judge.bench.audit.sealed import check_sealed, first_child
from judge.bench.audit.setting import STAGE, Setting
from judge.bench.audit.share import Share, check_compiler, check_products, check_share, from_trace, from_traffic
from judge.bench.audit.state_checks import Witness, examine
from judge.bench.audit.text import check_text
from judge.bench.device.gpu_lock import GpuLock
from judge.bench.exchange.claims import Forwarded
from judge.bench.exchange.contact import SubjectFailed
from judge.bench.exchange.rows import CountedRow
from judge.bench.judging.completion import Ended, of_candidate
from judge.bench.judging.reference import Reference
from judge.bench.judging.stage_log import StageLog
from judge.bench.judging.subjects import Subjects
from judge.bench.processes.child import Assignment
from judge.bench.sanitizing.tool import sanitizer_path
from judge.values import Finding

NO_SANITIZER = "compute-sanitizer is not installed"
ON_REQUEST = "{path} is no part of an audit: ask for its check on the page of the evaluation"
CHILDREN = {"audit": "census", "audit.noop": "noop"}

Result = TypeVar("Result")
Record = Callable[[str, str, float, str], None]  # name, state, milliseconds, detail


def sanitizer() -> str:
    """Why races and stray accesses are looked for by repeats and guard bands only."""
    path = sanitizer_path()
    return ON_REQUEST.format(path=path) if path else NO_SANITIZER


def audit(
    assignment: Assignment,
    subjects: Subjects,
    reference: Reference,
    lock: GpuLock,
    stage_log: StageLog,
    findings: list[Finding],
    candidate_us: float | None,
    counted: tuple[CountedRow, ...] | None = None,
) -> None:
    """Run every check within a wall limit of its own; findings are added. Raises Ended.

    `candidate_us`: the time, modelled where kernels are interpreted; None where it was not asked for. `counted`: the
    launches that a modelled time is made of.
    """
    subjects.deadline.renew(assignment.payload["wall_s"])
    # nobody whose output is kept sees what the audit asks
    subjects.release(*(name for name in subjects.contacts if name not in CHILDREN))
    setting = Setting(assignment, subjects, reference, findings, candidate_us, counted=counted)
    Audit(setting, stage_log.record, lock).run()


class Audit:
    """The checks in order; `record` writes down each. `run` raises Ended at the first that fails."""

    def __init__(self, setting: Setting, record: Record, lock: GpuLock) -> None:
        self.setting = setting
        self.record = record
        self.lock = lock

    def run(self) -> None:
        setting = self.setting
        setting.subjects.want(CHILDREN | first_child(setting))
        witness = self._check("state", lambda: examine(setting, "audit"), lambda _: "")
        kernels = Kernels.of(witness.reply)
        if setting.interprets and setting.candidate_us is not None:
            self._check("counts", lambda: check_recount(setting, witness.reply))
        self._check("launches", lambda: check_effect(setting, kernels, witness.question, "audit.noop", "audit.raise"))
        note_decoys(setting, kernels)
        self._check("share", lambda: self._share(witness, kernels))
        setting.subjects.release("audit")
        self._check("sealed", lambda: check_sealed(setting))
        if setting.device != "cpu":
            self.record(f"{STAGE}.sanitizer", "skipped", 0.0, sanitizer())
        if setting.device != "cpu" and setting.candidate_us is not None:
            self._check("roofline", lambda: check_roofline(setting, witness.question, self.lock))
        self._check("text", lambda: check_text(setting), lambda _: "")

    def _check(self, name: str, step: Callable[[], Result], detail: Callable[[Result], str] = str) -> Result:
        began = time.monotonic()
        try:
            result = step()
        except SubjectFailed as failed:
            raise self._failed(name, began, of_candidate(failed, STAGE)) from failed
        except Ended as ended:
            raise self._failed(name, began, ended) from ended
        self.record(f"{STAGE}.{name}", "ok", (time.monotonic() - began) * 1e3, detail(result))
        return result

    def _failed(self, name: str, began: float, ended: Ended) -> Ended:
        self.record(f"{STAGE}.{name}", "failed", (time.monotonic() - began) * 1e3, ended.reason)
        ended.stage = STAGE
        return ended

    def _share(self, witness: Witness, kernels: Kernels) -> str:
        setting = self.setting
        share = self._traced(witness, kernels) if setting.device != "cpu" else self._counted(witness)
        check_compiler(setting, share, kernels)
        check_products(setting, witness.question, witness.reply.traffic or ())
        return check_share(setting, share, kernels) if share is not None else "not known"

    def _counted(self, witness: Witness) -> Share | None:
        """The lower of two: in the call that the modelled time is made of, and in the one that was watched."""
        counted = (witness.reply.traffic or (), self.setting.counted or ())
        shares = [from_traffic(rows, self.setting.assignment.target) for rows in counted]
        return min(filter(None, shares), key=lambda share: share.value, default=None)

    def _traced(self, witness: Witness, kernels: Kernels) -> Share | None:
        """One more call, under the driver's trace: its threads come after those were counted."""
        slots = witness.rounds.tell(witness.question, count=True)
        reply = witness.rounds.contact.answer(Forwarded)
        witness.rounds.judge(witness.question, reply, slots, STAGE)
        share = from_trace(reply.traced, kernels)
        if share is None:
            self.setting.note("profile.unavailable", reply.untraced or "the GPU ran nothing")
        return share
