"""The trusted end of the compile stage: holds the problem, asks the recorder, says what compiled. Runs no candidate.

Nothing here needs a GPU or computes anything large: the problem gives shapes, not values.
"""

from __future__ import annotations

from typing import Any

from judge.bench.compiling.report import CompileReport
from judge.bench.exchange import seal
from judge.bench.exchange.claims import Constructed, Forwarded
from judge.bench.exchange.contact import Deadline, SubjectFailed
from judge.bench.exchange.nested import TensorMeta, packed
from judge.bench.exchange.sketch import SketchContact
from judge.bench.exchange.uncomputed import Uncomputed
from judge.bench.foreign.loading import load_problem
from judge.bench.foreign.sources import LoadError, describe
from judge.bench.foreign.whereabouts import Whereabouts
from judge.bench.judging.completion import Ended, of_candidate
from judge.bench.judging.reference import Reference
from judge.bench.processes.child import Assignment
from judge.values import Policy, Verdict

FINAL = frozenset({"compile.error", "compile.resources", "compile.timeout", "tamper.channel", "tamper.harness"})


def run(assignment: Assignment) -> None:
    """Role "compiler": one report, signed."""
    with Uncomputed():
        report = CompileJudge(assignment).report()
    assignment.boss.send(seal.signed(report.to_json(), assignment.payload))


class CompileJudge:
    """One candidate, compiled for the target."""

    def __init__(self, assignment: Assignment) -> None:
        self.assignment = assignment
        payload = assignment.payload
        deadline = Deadline(payload["wall_s"], payload["stage_s"])
        self.recorder = SketchContact("recorder", assignment.links[0], deadline, "cpu")
        self.loads = False

    def report(self) -> CompileReport:
        """Whatever ends it early is part of the report."""
        try:
            self._doing("problem")
            reference, inputs = self._problem()
            self._doing("load")
            self._load(reference, inputs)
            self._doing("compile")
            return self._compile(reference, inputs)
        except SubjectFailed as failed:
            return self._failed(failed)
        except Ended as ended:
            return self._ended(ended)

    def _problem(self) -> tuple[Reference, list[Any]]:
        """Shapes of the problem's arguments, inputs and parameters. Raises Ended."""
        payload, folder = self.assignment.payload, self.assignment.folder
        try:
            policy = Policy.from_json(payload["policy"])
            places = Whereabouts(self.assignment.boss.send)  # one call of its code has the time of a stage
            reference = Reference(load_problem(payload["source"], payload["case"], folder, places), "cpu", policy)
            return reference, reference.inputs("given", payload["seed"])
        except Exception as error:
            message = error.message if isinstance(error, LoadError) else describe(error, folder / "problem.py")
            raise Ended(
                Verdict.REFUSED_PROBLEM, "problem", "problem.raises", f"the reference raised {message}"
            ) from error

    def _load(self, reference: Reference, inputs: list[Any]) -> None:
        """Import, construct, parameters; as the referee does it on the device."""
        self.recorder.load()
        template, init = packed(reference.init)
        metas = [TensorMeta.of(tensor) for tensor in packed(inputs)[1]]
        self.recorder.make_arena(metas, [TensorMeta.of(tensor) for tensor in (*reference.first.values(), *init)])
        slots = [slot.to_json() for slot in self.recorder.place(init)]
        built = self.recorder.ask(Constructed, args=template, slots=slots, seed=reference.construct_seed)
        found = reference.bound(built)
        found.give(self.recorder, reference.first, again=False)
        self.loads = True

    def _compile(self, reference: Reference, inputs: list[Any]) -> CompileReport:
        template, tensors = packed(inputs)
        slots = [slot.to_json() for slot in self.recorder.place(tensors)]
        reply = self.recorder.ask(
            Forwarded, args=template, slots=slots, out=[], seed=reference.construct_seed, poison=False, count=False
        )
        return CompileReport(
            Verdict.COMPILED_ONLY,
            loads=True,
            kernels=reply.kernels,
            tuned=reply.tuned,
            launchers=reply.launchers,
            notes=reply.notes,
        )

    def _failed(self, failed: SubjectFailed) -> CompileReport:
        """What the recorder reported, or that it fell silent."""
        if failed.reason == "compile.incomplete":
            return CompileReport(Verdict.UNSUPPORTED, reason=failed.reason, message=failed.message, loads=self.loads)
        return self._ended(of_candidate(failed, "compile" if self.loads else "load"))

    def _ended(self, ended: Ended) -> CompileReport:
        return CompileReport(
            ended.verdict,
            stage=ended.stage,
            reason=ended.reason,
            message=ended.message,
            final=ended.reason in FINAL,
            loads=self.loads,
        )

    def _doing(self, what: str) -> None:
        self.assignment.boss.send({"doing": what})
