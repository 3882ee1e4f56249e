"""A child that runs one model and obeys the referee: a candidate, or the reference as a baseline.

It holds no expected value and no key. Whatever it says is a claim; the referee compares the bytes in the arena.
"""

from __future__ import annotations

import gc
import importlib
import socket
import time
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import torch

from judge.bench.device import memory
from judge.bench.device.clocks import make_clock
from judge.bench.exchange import known_draws
from judge.bench.exchange.arenas import Arena, Slot, open_arena
from judge.bench.exchange.nested import NotCarried, TensorMeta, decode, ordered, packed
from judge.bench.exchange.poison import poisoned_allocations
from judge.bench.exchange.sketch import SketchArena
from judge.bench.exchange.wire import Channel, Message, WireClosed
from judge.bench.foreign import factories, faults, random_state
from judge.bench.foreign.aliasing import HandedOut, overlaps
from judge.bench.foreign.gradients import Calls, NoGradient, start_autograd
from judge.bench.foreign.loading import load_candidate, load_problem
from judge.bench.foreign.sources import LoadError
from judge.bench.foreign.switches import Switchboard, neutral
from judge.bench.processes.child import Assignment
from judge.bench.processes.inspection import threads_in
from judge.bench.subjects.baseline_models import as_baseline
from judge.bench.subjects.burst_calls import BurstCalls
from judge.bench.subjects.harness import Harness
from judge.bench.subjects.watch import Watch, warm_up, watch_for
from judge.values import BASELINES, Gradients, JudgeError, Policy

SELDOM = 8  # timed calls from one look at the harness to the next


def run(assignment: Assignment) -> None:
    """Role "subject": load the source, then answer the referee until it hangs up."""
    link = Channel(socket.socket(fileno=assignment.links[0]))
    policy = Policy.from_json(assignment.payload["policy"])
    if policy.gradients is not Gradients.NONE:
        start_autograd()  # its threads are the judge's, not the candidate's
    warm_up(assignment)
    assignment.boss.send({"threads": threads_in()})
    assignment.boss.close()
    baseline = BASELINES.get(str(assignment.payload["mode"]))
    neutral(policy, benchmark=baseline is not None and baseline.benchmark)
    if assignment.device != "cpu":
        torch.cuda.set_per_process_memory_fraction(memory.CHILD_SHARE, assignment.device)
    if "tuned" in assignment.payload:  # kernels were compiled ahead for this GPU
        tuning = importlib.import_module("judge.bench.compiling.tuning")  # needs Triton, which not every machine has
        tuning.install(assignment.payload, assignment.folder, assignment.device)
    Subject(assignment, link).serve()


class Subject:
    """The model under test and the arena it exchanges tensors through."""

    def __init__(self, assignment: Assignment, link: Channel) -> None:
        self.assignment = assignment
        self.link = link
        self.device = assignment.device
        self.mode = str(assignment.payload["mode"])  # "run", "record" or one of BASELINES
        name = "problem" if self.mode in BASELINES else "candidate"
        self.path = assignment.folder / f"{name}.py"
        self.policy = Policy.from_json(assignment.payload["policy"])
        self.switches = Switchboard(self.device)
        self.watch: Watch = watch_for(self.mode, assignment, lambda message: self.link.send(message))
        self.arena: Arena | None = None
        self.model_class: Callable[..., Any] | None = None
        self.model: Any = None
        self.clock: Any = None
        self.calls = Calls(self.policy)
        self.bursts = BurstCalls(self.device, lambda row: self._values(row, held=False), self.calls)
        self._fetched: list[tuple[Slot, torch.Tensor]] = []
        self._answers = 0
        self._handed_out = HandedOut()
        counters = (assignment.adapter, getattr(assignment.adapter, "ledger", None))
        self.harness = Harness(self, link, self.calls, self.bursts, self.switches, self.watch, *filter(None, counters))

    def serve(self) -> None:
        """Import the source, then answer until the other side hangs up."""
        self.obey({"op": "start"})
        self.obey({"op": "load"})
        while True:
            try:
                command = self.link.receive(None)
            except WireClosed:
                return
            self.obey(command)

    def obey(self, command: Message) -> None:
        """One command, and the reply to it."""
        handlers: dict[str, Callable[[Message], Message]] = {
            "start": lambda _: {"started": True},
            "load": self._load,
            "arena": self._arena,
            "construct": self._construct,
            "parameters": self._parameters,
            "forward": _uncollected(self._forward),
            "timed": _uncollected(self._timed),
            "choose": self._choose,
            "fail_launches": lambda _: self.watch.fail_launches(),
            "burst_ready": self.bursts.ready,
            "burst_capture": lambda _: self.bursts.capture(self.model, self._opened()),
            "burst": lambda _: self.bursts.burst(self.model, self._opened()),
        }
        self._answer(handlers[command["op"]], command)

    def _answer(self, handler: Any, command: Message) -> None:
        """Run one handler; what the candidate raised becomes a value, SystemExit and MemoryError included."""
        if command.get("spare"):
            self._have_the_device()
        try:
            reply = handler(command)
        except JudgeError:
            raise
        except LoadError as error:
            reply = {"error": {"kind": "load", "reason": error.reason, "message": error.message}}
        except BaseException as error:  # noqa: BLE001 - the child's entry point into foreign code
            reply = {"error": faults.describe_fault(error, self.path)}
            del error
            gc.collect()
        self._answers += 1
        if command.get("op") != "timed" or command.get("spare") or self._answers % SELDOM == 0:
            reply |= self._looked_at(command)  # else it would be in the way of every timed call
        self.link.send({**reply, "number": command.get("number", "")})

    def _looked_at(self, command: Message) -> Message:
        """What foreign code turned or replaced, and the memory it took."""
        switched, reply = self.switches.restore(), self._spare(command)
        if switched:
            reply["switched"] = switched
        touched = self.harness.touched()
        return reply | ({"touched": touched} if touched else {})

    def _load(self, command: Message) -> Message:
        payload, folder = self.assignment.payload, self.assignment.folder
        if self.mode in BASELINES:
            self.model_class = load_problem(payload["source"], payload["case"], folder).Model
        else:
            self.model_class = load_candidate(payload["source"], folder)
        return {"loaded": True}

    def _arena(self, command: Message) -> Message:
        fds = self.link.take_fds()
        arena = open_arena(command, fds, self.device)
        self.arena = SketchArena(arena) if self.mode == "record" else arena
        return {"arena": self.arena.kind}

    def _construct(self, command: Message) -> Message:
        fds = self.link.take_fds()
        self.model = None  # one that was there before makes room
        init = self._values(command, keep=True)
        random_state.reset(command["seed"])
        assert self.model_class is not None
        with torch.no_grad(), known_draws.read(command.get("draws", {}), fds):
            model = factories.under(self.policy, self.model_class(*init), self.device)
        self._synchronize()
        self.model = model
        rows = [{"name": name, "kind": kind, **TensorMeta.of(tensor).to_json()} for name, kind, tensor in self._state()]
        return {"constructed": True, "state": rows, "hook": hasattr(model, "load_reference_state")}

    def _state(self) -> list[tuple[str, str, torch.Tensor]]:
        if not isinstance(self.model, torch.nn.Module):
            return []
        state = [(name, "parameter", tensor) for name, tensor in self.model.named_parameters()]
        return state + [(name, "buffer", tensor) for name, tensor in self.model.named_buffers()]

    def _parameters(self, command: Message) -> Message:
        reply: Message = {}
        given = {name: self._opened().fetch(Slot.from_json(row)) for name, row in command["state"]}
        with torch.no_grad():
            if command["hook"]:
                self.model.load_reference_state({name: tensor.clone() for name, tensor in given.items()})
            else:
                own = {name: tensor for name, _, tensor in self._state()}
                for name, tensor in given.items():
                    own[name].copy_(tensor)
            if hasattr(self.model, "prepare"):
                reply["prepare_us"] = self._prepare()
        self._synchronize()  # after this reply the referee writes over the arena that the copies read from
        self._ask_gradients(command["gradients"])
        baseline = BASELINES.get(self.mode)
        if baseline is not None and not command.get("again"):
            self.model = as_baseline(baseline, self.model, self.device)
        return reply | {"parameters": len(given)}

    def _ask_gradients(self, names: list[str]) -> None:
        own = {name: tensor for name, _, tensor in self._state()}
        missing = [name for name in names if name not in own]
        if missing:
            raise LoadError("load.params", f"prepare() removed parameters whose gradients are asked for: {missing[:8]}")
        self.calls.prepare(self.model, [own[name] for name in names])

    def _prepare(self) -> float:
        """Let the model rearrange its parameters; microseconds, told apart from every timed call."""
        self._synchronize()
        started = time.perf_counter_ns()
        self.model.prepare()
        self._synchronize()
        return (time.perf_counter_ns() - started) / 1e3

    def _choose(self, command: Message) -> Message:
        """Which configurations the interpreter runs: those that fit the target."""
        self.assignment.adapter.lists.choose(command["choices"])
        return {"chosen": True}

    def _opened(self) -> Arena:
        assert self.arena is not None
        return self.arena

    def _values(self, command: Message, *, keep: bool = False, held: bool = True) -> Any:
        """The nested arguments of a command, tensors in the arena; copies with `keep`, which outlive the command.

        With `held` the tensors are remembered, to show the referee what the call did to them.
        """
        slots = [Slot.from_json(row) for row in command["slots"]]
        self._fetched = []

        def get(number: int) -> torch.Tensor:
            tensor = self._opened().fetch(slots[number])
            if keep:
                return tensor.clone()
            if held:
                self._fetched.append((slots[number], tensor.detach()))  # the model may give its own another shape
            return tensor

        return decode(command["args"], get, self.device)

    def _forward(self, command: Message) -> Message:
        """One call. The reply tells the structure; the bytes go into the output slots."""
        args = self._values(command)
        random_state.reset(command["seed"])
        before = random_state.mark(self.device)
        with ExitStack() as stack:
            stack.enter_context(torch.no_grad())
            if command.get("poison"):
                stack.enter_context(poisoned_allocations())
            stack.enter_context(self.watch.during(count=bool(command.get("count"))))
            try:
                out = self.calls(self.model, args)
            except NotCarried as error:
                return {"structure": str(error), "underived": isinstance(error, NoGradient)}
            self.watch.returned(out)
            grads = torch.is_grad_enabled()
        self._synchronize()
        self._give_back()
        reply = self._hand_over(out, command) | self._shared(out, args) | self._left_behind(command)
        reply |= {
            "drew": random_state.moved(before, self.device),
            "grads": grads,
            "accumulated": self.calls.accumulated,
        }
        return reply | self.watch.report(count=bool(command.get("count")))

    def _shared(self, out: Any, args: Any) -> Message:
        """Which outputs lie in an input's memory, and which in memory that the model keeps."""
        if self.mode == "record":
            return {}
        try:
            _, outputs = packed(ordered(out))
            _, inputs = packed(args)
        except NotCarried:
            return {}
        state = [tensor for _, _, tensor in self._state()]
        return {"alias": overlaps(outputs, inputs), "kept": self._handed_out.kept(outputs, inputs, state)}

    def _left_behind(self, command: Message) -> Message:
        """Parameters and buffers that the referee wants to see again go into slots."""
        missing = []
        own = {name: tensor for name, _, tensor in self._state()} if command.get("keep") else {}
        for name, row in command.get("keep", []):
            slot, tensor = Slot.from_json(row), own.get(name)
            if tensor is None or tuple(tensor.shape) != slot.meta.shape:
                missing.append(name)
            elif self.mode != "record":
                self._opened().put(slot, tensor.detach())
        if own:
            self._synchronize()
        return {"missing": missing}

    def _give_back(self) -> None:
        """Show the referee the inputs as the call left them."""
        for slot, tensor in self._fetched:
            self._opened().give_back(slot, tensor)

    def _hand_over(self, out: Any, command: Message) -> Message:
        try:
            template, tensors = packed(ordered(out), "the output")
        except NotCarried as error:
            return {"structure": str(error)}
        metas = [TensorMeta.of(tensor) for tensor in tensors]
        slots = [Slot.from_json(row) for row in command["out"]]
        fits = [(m.dtype, m.shape) for m in metas] == [(s.meta.dtype, s.meta.shape) for s in slots]
        if fits and self.mode != "record":
            for slot, tensor in zip(slots, tensors, strict=True):
                self._opened().put(slot, tensor.detach())
            self._synchronize()
        return {"template": template, "metas": [meta.to_json() for meta in metas], "stored": fits}

    def _timed(self, command: Message) -> Message:
        """One timed call: flush, stamp, forward, device-wide sync, stamp; the output goes out afterwards."""
        if self.clock is None:
            self.clock = make_clock(self.device)
        args = self._values(command)
        random_state.reset(command["seed"])
        with torch.no_grad(), self.watch.during(count=False):
            self.clock.start(flush=bool(command["flush"]), hold=not command.get("gaps"))
            out = self.calls(self.model, args)
            elapsed_us = self.clock.stop()
        reply = self._hand_over(out, command) | self._shared(out, args)
        return reply | {"us": elapsed_us, "host_us": self.clock.host_us}

    def _have_the_device(self) -> None:
        """Where memory is short, it is lent to one process after another."""
        if self.device != "cpu":
            torch.cuda.set_per_process_memory_fraction(1.0, self.device)

    def _spare(self, command: Message) -> Message:
        """Tell the peak of its memory; with `spare` what is not in use is given back to the device."""
        if self.device == "cpu":
            return {}
        if command.get("spare"):
            self._fetched.clear()
            memory.relieve(self.device)
        return {"peak": memory.peak_bytes(self.device)}

    def _synchronize(self) -> None:
        if self.device != "cpu":
            torch.cuda.synchronize()


def _uncollected(handler: Callable[[Message], Message]) -> Callable[[Message], Message]:
    """No garbage is collected until the output is handed over: that would fall into some calls of one side and none of
    the other's, and what is collected may have a `__del__` that does the work after the call was timed or counted."""

    def handled(command: Message) -> Message:
        gc.disable()
        try:
            return handler(command)
        finally:
            gc.enable()

    return handled
