"""Runs the children of one plan to their end: starts them, bounds them, hears the one that decides. Standard library
only."""

from __future__ import annotations

import os
import secrets
import time
from typing import Any

from judge.bench.device.lock_table import LockTable
from judge.bench.exchange import seal
from judge.bench.exchange.fields import BadClaim
from judge.bench.exchange.reports import Sealed, heard
from judge.bench.exchange.wire import WireGarbage
from judge.bench.processes.child_group import ChildGroup
from judge.bench.processes.children import Child
from judge.bench.processes.jobs import EvaluationPlan
from judge.bench.processes.kept_referees import AHEAD_S
from judge.bench.processes.listening import FORGES_FIX, Host, Listening, Progress
from judge.bench.processes.stopping import look
from judge.bench.processes.watching import Broken, Watch, fit_to_stay
from judge.bench.sandboxing.sandbox import Layers, missing
from judge.values import JudgeError, Limits

STEP_S = 0.25


class Conductor:
    """Conducts one plan after another for one bench."""

    def __init__(self, bench: Host) -> None:
        self.bench = bench
        self.layers: dict[str, Layers] = {}  # of the last plan's children, by name
        self.settling_s = 0.0  # waited for the children of earlier plans to be gone
        self.leaving: list[ChildGroup] = []  # killed, and perhaps not yet gone: a CUDA context takes its time

    def settle(self) -> None:
        """Wait until nothing of earlier plans lives. Raises JudgeError when something will not die."""
        began = time.monotonic()
        while self.leaving:
            self.leaving.pop().close()
        self.bench.kept_referees.settle()
        self.settling_s += time.monotonic() - began

    def release(self) -> None:
        """Close what is open: the zygotes end with their children."""
        for group in self.leaving:
            for child in group.members.values():
                child.release()
        self.leaving.clear()

    def conduct(self, plan: Listening, limits: Limits, progress: Progress | None) -> tuple[Any, ChildGroup]:
        """Run a plan's children to their end. Returns the signed body, or None when no valid verdict came."""
        key, nonce = secrets.token_hex(32), secrets.token_hex(16)
        sealed: Sealed | None = None
        if plan.uses_gpu:  # the others need not wait until contexts are gone
            self.settle()
        waits = not self.bench.device.startswith("cuda")
        staying: dict[str, Child] = {}
        bench = self.bench
        with ChildGroup(limits, sandbox=bench.sandbox, required=bench.minimum_sandbox, waits=waits) as group:
            self.leaving += [] if waits else [group]
            plan.start(group, key=key, nonce=nonce)
            plan.watch = Watch(limits, self._lock_table(), memory=waits)
            deadline = time.monotonic() + limits.wall_s + plan.grace_s  # from here: starting a bench is not its time
            while (
                sealed is None and plan.broken is None and (left := deadline + plan.waited_s() - time.monotonic()) > 0
            ):
                look()
                sealed = self._heard(plan, group, min(STEP_S, left), nonce, progress)
                if sealed is None and group.ended(plan.judge):
                    sealed = self._heard(plan, group, 0, nonce, progress)
                    break
                plan.look(group, limits)
            if sealed is not None and not seal.verified(sealed.body, sealed.mac, key=key, nonce=nonce):
                plan.broken = Broken("problem.forges", "it sent a verdict of its own", FORGES_FIX)
            if plan.broken is not None:
                sealed = None
            plan.settle(group)
            self.layers = {name: child.layers or {} for name, child in group.members.items()}
            self._require_layers()
            staying = plan.staying(group) if isinstance(plan, EvaluationPlan) and sealed is not None else {}
            if staying and not all(fit_to_stay(child) for child in staying.values()):
                staying = {}
            group.kept = set(staying)
        if isinstance(plan, EvaluationPlan) and staying:
            self.bench.kept_referees.keep(plan.problem_key, staying, freeze_after_s=0.0 if waits else AHEAD_S)
        if plan.scarce:
            self.bench.kept_referees.clear()
        return (sealed.body if sealed else None), group

    @staticmethod
    def _heard(
        plan: Listening, group: ChildGroup, wait_s: float, nonce: str, progress: Progress | None
    ) -> Sealed | None:
        """The verdict, once it has come; every message until then is taken note of. One that is none of ours breaks a
        bound of the problem."""
        try:
            for message in group.step(wait_s, plan.judge):
                verdict = plan.hear(heard(message, nonce), progress)
                if verdict is not None:
                    return verdict
        except (BadClaim, WireGarbage) as error:
            plan.broken = Broken("problem.forges", f"it sent {error}", FORGES_FIX)
        return None

    def _lock_table(self) -> LockTable | None:
        fd = self.bench.gpu_lock()
        if fd is None:
            return None
        try:
            return LockTable(fd)
        finally:
            os.close(fd)

    def _require_layers(self) -> None:
        for name, layers in self.layers.items():
            gaps = missing(layers, sorted(self.bench.minimum_sandbox))
            if gaps and layers:
                raise JudgeError(f"required sandbox layers are not active in the {name} child: {', '.join(gaps)}")
