"""What an evaluation's processes hold of the device, and whose lack of memory it is when the judge finds too little."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import torch

from judge.bench.deciding.referee_cache import RefereeCache
from judge.bench.device import gpu, memory
from judge.bench.device.memory import CHILD_SHARE
from judge.bench.judging.completion import Ended, of_reference
from judge.bench.judging.memory_plan import MemoryPlan
from judge.bench.judging.subjects import Subjects
from judge.values import JudgeError, Verdict
from judge.values.units import gib

ASKED = re.compile(r"[Tt]ried to allocate ([\d.]+ \w+)")  # in torch's messages, of GPUs and of the CPU
LACKING = (torch.OutOfMemoryError, MemoryError)
CROWDED = 0.2  # of a GPU's memory in other hands, contexts of its own children included
CONTEXTS_BYTES = 4 << 30  # what children hold at least, whatever they compute


class MemoryAccount:
    """One evaluation's."""

    def __init__(self, cache: RefereeCache, subjects: Subjects, device: str) -> None:
        self.cache = cache
        self.subjects = subjects
        self.device = device
        self.before = 0.0  # bytes in other hands when the evaluation began
        self._reached: dict[str, int] = {}  # by children that were sent away

    def begin(self) -> None:
        """Note what others hold before the evaluation's own processes compute anything."""
        self.before = self._others() - sum(self._peaks().values())  # a baseline may have stayed

    def may_blame(self, ended: Ended) -> None:
        """Raises JudgeError where a subject found too little memory and strangers held some of its share: at the
        beginning, or once this evaluation's own processes are gone."""
        if ended.verdict is not Verdict.OUT_OF_MEMORY and ended.reason != "problem.memory":
            return
        if self.device == "cpu":
            return
        held, total = self._others(), memory.total_bytes(self.device)
        alone = self._alone()
        strangers = max(alone, self.before)
        lean = self.plan is not None and self.plan.lean
        mine = total - gpu.free_bytes(self.device) - alone
        share = min((1.0 if lean else CHILD_SHARE) * total, total - mine)
        if strangers > CROWDED * total and total - mine - strangers < share:
            told = f"others held {gib(strangers)} of the GPU's memory, this evaluation's children {gib(held - alone)}"
            raise JudgeError(f"{told}; one may have {gib(share)}: {ended.message}") from ended

    @property
    def plan(self) -> MemoryPlan | None:
        return self.cache.reference.plan if self.cache.reference is not None else None

    def noted(self) -> dict[str, Any]:
        """What was planned beside what was taken, as children say; for the outcome's environment."""
        reference = self.cache.reference
        if reference is None or reference.plan is None:
            return {}
        reached = self._reached | self._peaks()
        if self.device != "cpu":
            reached["referee"] = memory.peak_bytes(self.device)
        return {"memory": {**reference.plan.to_json(), "oracle": reference.oracle, "reached_bytes": reached}}

    def shortage(self, error: Exception, stage: str) -> Ended:
        """What it means that the judge itself found too little memory. Raises JudgeError where others hold it, or where
        there should have been enough."""
        plan = self.plan
        if plan is None or not plan.lean:
            raise JudgeError(f"the judge found too little memory: {error}") from error
        held = self._others()
        candidates = [name for name in self.subjects.contacts if name.partition("#")[0] == "candidate"]
        self._send_away(candidates)
        own = held - self._others()  # what came back with them: nobody's word
        others = self._alone()
        if candidates and own > 2 * (plan.forward + plan.state) + CONTEXTS_BYTES:
            text = f"its process keeps memory between calls: {gib(own)} came back when it ended"
            return Ended(Verdict.OUT_OF_MEMORY, stage, "run.oom", text)
        if others > CROWDED * memory.total_bytes(self.device):
            raise JudgeError(f"the judge found too little memory: others hold {gib(others)}") from error
        return Ended(Verdict.REFUSED_PROBLEM, stage, "problem.memory", f"{plan.words}: use smaller tensors")

    def _alone(self) -> float:
        """Bytes in strangers' hands: what others hold once this evaluation's children are gone."""
        self._send_away(list(self.subjects.contacts))
        return self._others()

    def _send_away(self, names: list[str]) -> None:
        """End these children, and wait for that as the runner sees it."""
        self._reached |= self._peaks()
        self.subjects.reclaims = True
        self.subjects.release(*names)

    def of_problem(self, error: Exception, path: Path, place: str) -> Ended:
        """What it means that the reference raised at its first question. Raises JudgeError where others hold memory."""
        ended = of_reference(error, path, place)
        if ended.reason == "problem.memory":
            others = gpu.taken_by_others(self.device)
            if others > CROWDED:
                text = f"the reference found too little memory: others hold {others:.0%} of it"
                raise JudgeError(text) from error
            ended.message += f"; {self.plan.words}" if self.plan is not None else _asked(error, self.device)
        return ended

    def _peaks(self) -> dict[str, int]:
        return {name: contact.peak_bytes for name, contact in self.subjects.contacts.items() if contact.peak_bytes}

    def _others(self) -> float:
        """Bytes in other processes: neither free, nor this one's, nor lent by it."""
        if self.device == "cpu":
            return 0.0
        taken = gpu.taken_by_others(self.device) * memory.total_bytes(self.device)
        return taken - self.cache.arenas.device_bytes


def _asked(error: Exception, device: str) -> str:
    """What it wanted when there was no more, as far as torch says, and what the device has."""
    asked = ASKED.search(str(error))
    wanted = f"; it asked for {asked[1]} more" if asked else ""
    has = "" if device == "cpu" else f", the device has {gib(memory.total_bytes(device))}"
    return wanted + has
