"""The child that decides: it holds the problem, the secret seeds, the oracle and the key; it runs no candidate."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from functools import partial
from typing import Any

from judge.bench import gpu, seal
from judge.bench.child import Assignment
from judge.bench.contact import Contact, Deadline, SubjectFailed
from judge.bench.correctness import Question, Rounds
from judge.bench.endings import Ended, broken_device, of_candidate, of_reference, of_subject
from judge.bench.fitting import Fit, fit
from judge.bench.gpu import neutral_flags
from judge.bench.gpu_lock import WAITING, GpuLock
from judge.bench.loading import load_problem
from judge.bench.modelled import fixed_seed, modelled
from judge.bench.nested import NotCarried, TensorMeta, encode
from judge.bench.recruits import ask_for
from judge.bench.reference import Reference, collect
from judge.bench.timing_stage import Measured, TimingStage
from judge.bench.whereabouts import DeviceLost, Whereabouts
from judge.bench.wire import Message
from judge.values import CaseRecord, Finding, JudgeError, Outcome, Speedup, StageRecord, Timing, Verdict


def run(assignment: Assignment) -> None:
    """Role "referee": judge one candidate and send the one signed message."""
    neutral_flags()
    referee = Referee(assignment)
    body = json.loads(json.dumps(referee.outcome().to_json()))
    payload = assignment.payload
    mac = seal.sign(body, key=payload["key"], nonce=payload["nonce"])
    assignment.boss.send({"verdict": body, "mac": mac})


class Referee:
    """One evaluation, stage by stage."""

    def __init__(self, assignment: Assignment) -> None:
        payload = assignment.payload
        self.assignment = assignment
        self.payload = payload
        self.device = assignment.device
        self.deadline = deadline = Deadline(payload["wall_s"], payload["stage_s"])
        names: list[str] = payload["subjects"]
        self.contacts = {
            name: Contact(name, fd, deadline, self.device) for name, fd in zip(names, assignment.links, strict=False)
        }
        lock_fd = assignment.links[len(names)] if len(assignment.links) > len(names) else None
        self.lock = GpuLock(lock_fd, self._waiting)
        self.whereabouts = Whereabouts(assignment.boss.send, lambda: gpu.settle(self.device))
        self.doing = "start"
        self.stages: list[StageRecord] = []
        self.records: list[CaseRecord] = []
        self.loads = False
        self.kernels: list[dict[str, Any]] = []
        self.timings: list[Timing] = []
        self.speedup: Speedup | None = None
        self.speedup_compile: Speedup | None = None
        self.versus_incumbent: Speedup | None = None
        self.findings: list[Finding] = []
        self.confirmed = False  # measured twice, and faster than the best so far both times
        self.environment: dict[str, Any] = {}
        self._fits: dict[str, Fit] = {}

    def outcome(self) -> Outcome:
        """Run the stages; whatever ends them early becomes the verdict."""
        try:
            with self.lock.shared():
                self._judge()
        except DeviceLost as lost:
            return self._not_passed(broken_device(lost, self.doing))
        except Ended as ended:
            if ended.verdict is not Verdict.REFUSED_PROBLEM:
                self._trust_the_device()
            return self._not_passed(ended)
        self._trust_the_device()
        return Outcome(
            Verdict.PASS,
            stage=self.stages[-1].name,
            loads=True,
            timings=tuple(self.timings),
            speedup=self.speedup,
            speedup_compile=self.speedup_compile,
            versus_incumbent=self.versus_incumbent,
            findings=tuple(self.findings),
            stages=tuple(self.stages),
            cases=tuple(self.records),
            kernels=tuple(self.kernels),
            environment=self.environment,
        )

    def _trust_the_device(self) -> None:
        """No verdict on a candidate by a referee whose own device failed it. Raises JudgeError."""
        if self.whereabouts.device_lost():
            raise JudgeError("the referee's GPU context broke while it compared")

    def _not_passed(self, ended: Ended) -> Outcome:
        if ended.subject != "candidate":
            self.environment["failed_child"] = ended.subject
        self._record(ended.stage, "failed", 0.0, ended.reason)
        return Outcome(
            ended.verdict,
            stage=ended.stage,
            reason=ended.reason,
            message=ended.message,
            loads=self.loads,
            stages=tuple(self.stages),
            cases=tuple(self.records),
            kernels=tuple(self.kernels),
            environment=self.environment,
        )

    def _judge(self) -> None:
        self.environment["reference"] = "separate process"
        self._doing("problem")
        reference, rounds, first = self._problem()
        self._doing("load")
        self._timed("load", lambda: self._load(reference, first))
        rounds.fit = self._fits["candidate"]
        self.records = rounds.records
        counted = self.payload["timing"] and self.payload["basis"] == "modelled"
        self._doing("smoke")  # the call runs while the recorder compiles; its verdict comes second
        slots = self._guarded("smoke", lambda: rounds.tell(first, count=counted))
        if "recorder" in self.contacts:
            self._doing("compile")
            self._timed("compile", lambda: self._compile(reference, first))
        self._doing("smoke")
        answer = self._timed("smoke", lambda: self._guarded("smoke", rounds.contact.answer))
        self._doing("correctness")
        self._timed("correctness", lambda: self._guarded("correctness", lambda: rounds.run(first, answer, slots)))
        if self.payload["timing"]:
            self._doing("timing")
            self._timed("timing", lambda: self._timing(reference, first, answer))

    def _problem(self) -> tuple[Reference, Rounds, Question]:
        """Import the problem and answer the first question, while the subjects import their own sources."""
        path = self.assignment.folder / "problem.py"
        try:
            loaded = load_problem(
                self.payload["source"], self.payload["case"], self.assignment.folder, self.whereabouts
            )
            reference = Reference(loaded, self.device)
            encode(reference.init, collect([]), "get_init_inputs()")
            rounds = Rounds(reference, self.contacts["candidate"], Fit((), hook=False), self.payload["case"])
            fixed = fixed_seed(self.payload["source"]) if self.payload["basis"] == "modelled" else None
            return reference, rounds, rounds.first(fixed)
        except NotCarried as error:
            raise Ended(Verdict.REFUSED_PROBLEM, "problem", "problem.unsupported", str(error)) from error
        except (Ended, SubjectFailed, DeviceLost):
            raise
        except Exception as error:
            raise of_reference(error, path, self.whereabouts.last) from error

    def _load(self, reference: Reference, first: Question) -> None:
        """Import, construct, fit the parameters: candidate first, then whoever else takes part."""
        names = [name for name in self.contacts if name not in ("compile", "incumbent")]
        for name in names:
            self._guarded("load", partial(self._introduce, name, reference, first))
        self.loads = True
        self.environment["exchange"] = self.contacts["candidate"].arena.kind

    def _introduce(self, name: str, reference: Reference, first: Question) -> None:
        contact = self.contacts[name]
        contact.answer()  # the import
        init: list[Any] = []
        template = encode(reference.init, collect(init))
        metas = [TensorMeta.of(t) for t in first.tensors()] + first.expected.metas
        others = [TensorMeta.of(t) for t in (*reference.first.values(), *init)]
        contact.make_arena(metas, others)
        ins, _ = contact.lay_out(init, [], 0)
        built = contact.ask(
            "construct", args=template, slots=[slot.to_json() for slot in ins], seed=reference.construct_seed
        )
        self._fits[name] = fit(built["state"], bool(built["hook"]), reference.first, reference.parameter_names)

    def _compile(self, reference: Reference, first: Question) -> None:
        """Every launch compiled for the target on CPU tensors; the recorder runs nothing."""
        recorder = Rounds(reference, self.contacts["recorder"], self._fits["recorder"], self.payload["case"])
        try:
            recorder.tell(first)
            reply = recorder.contact.answer()
        except SubjectFailed as failed:
            if failed.reason == "compile.incomplete" or failed.kind in ("exception", "bounds", "unsupported"):
                self.environment["compile"] = f"incomplete: {failed.message[:600]}"
                return
            raise of_candidate(failed, "compile") from failed
        self.kernels = [dict(row) for row in reply.get("kernels", []) if isinstance(row, dict)]
        self.environment["compile"] = "; ".join(str(note) for note in reply.get("notes", [])) or "complete"

    def _timing(self, reference: Reference, first: Question, answer: Message) -> None:
        if self.payload["basis"] == "modelled":
            found = modelled(reference, first, answer, self.assignment.target)
            self.timings = [found.candidate, found.eager]
            self.speedup = found.speedup
            return
        self._measure(reference, first)

    def _measure(self, reference: Reference, first: Question) -> None:
        """Side by side with eager and the best so far; a would-be best also by the trusted clock."""
        stage = TimingStage(
            reference,
            first,
            case=self.payload["case"],
            budget_s=self.payload["timing_s"],
            lock=self.lock,
            introduce=lambda name: self._ready(name, reference, first),
        )
        found = stage.measure(rival=self._rival(reference, first))
        failed = stage.compiled(found, self.payload.get("compile_us"), live="compile" in self.contacts)
        if failed:
            self.environment["torch_compile"] = failed
        if self._would_be_best(found.speedup):
            stage.trust(found)
            found = self._confirmed(stage, found)
        self._publish(found)
        self.environment |= gpu.facts(self.device)

    def _rival(self, reference: Reference, first: Question) -> bool:
        """Whether the best so far takes part; its own fault is nobody's here, it is left out then."""
        if "incumbent" not in self.contacts:
            return False
        try:
            self._ready("incumbent", reference, first)
        except SubjectFailed as failed:
            self.environment["incumbent"] = f"left out: {failed.message}"[:600]
            return False
        return True

    def _would_be_best(self, speedup: Speedup | None) -> bool:
        beat = self.payload.get("beat")
        return speedup is not None and (beat is None or speedup.value > beat)

    def _confirmed(self, stage: TimingStage, found: Measured) -> Measured:
        """Once more in fresh processes: what one process was lucky with, another is not."""
        roles = {"candidate#2": "run", "eager#2": "eager"}
        if found.rival is not None:
            roles["incumbent#2"] = "incumbent"
        self.more(roles)
        again = stage.confirm(found)
        self.confirmed = found.beats_rival and again.beats_rival
        for name in roles:
            self.contacts.pop(name).hang_up()
        return again

    def _publish(self, found: Measured) -> None:
        self.timings, self.findings = found.timings, [*self.findings, *found.findings]
        self.speedup, self.speedup_compile, self.versus_incumbent = found.speedup, found.compiled, found.rival

    def _ready(self, name: str, reference: Reference, first: Question) -> tuple[Contact, Fit]:
        """A child that has imported and constructed its model."""
        if name not in self._fits:
            self._introduce(name, reference, first)
        return self.contacts[name], self._fits[name]

    def _guarded(self, stage: str, step: Callable[[], Any]) -> Any:
        """Turn a subject's failure into the ending it means."""
        try:
            return step()
        except SubjectFailed as failed:
            raise of_subject(failed, stage) from failed

    def more(self, wanted: dict[str, str]) -> dict[str, Contact]:
        """Further children, each in a fresh process: name ("candidate#2", "eager#2", "incumbent") -> mode, see MODES.

        They import at once; `_introduce` makes them ready. Hang up on whom you no longer need. Raises JudgeError.
        """
        links = ask_for(self.assignment.boss, wanted, self.deadline.stage())
        given = {name: Contact(name, fd, self.deadline, self.device) for name, fd in links.items()}
        self.contacts |= given
        return given

    def _doing(self, what: str) -> None:
        """Tell the runner where we are: if we hang or die there, it knows whose code was running."""
        self.doing = what
        self.assignment.boss.send({"doing": what})

    @contextmanager
    def _waiting(self) -> Iterator[None]:
        """Others use the GPU: their time counts neither here nor at the runner."""
        doing = self.doing
        self._doing(WAITING)
        with self.deadline.paused():
            yield
        self._doing(doing)

    def _timed(self, name: str, step: Callable[[], Any]) -> Any:
        started = time.monotonic()
        result = step()
        self._record(name, "ok", (time.monotonic() - started) * 1000)
        return result

    def _record(self, name: str, state: str, wall_ms: float, detail: str = "") -> None:
        record = StageRecord(name, state, wall_ms, detail)
        self.stages.append(record)
        self.assignment.boss.send({"stage": asdict(record)})
