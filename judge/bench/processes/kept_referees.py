"""Referees that stay at their problem between evaluations, as the runner sees them. Standard library only."""

from __future__ import annotations

import time
from collections.abc import Hashable

from judge.bench.processes.children import END_S, Child, retire
from judge.values import JudgeError

BASELINE = "eager"  # the child that stays with its referee
AHEAD_S = 1.0  # in which a referee that stays at a GPU's problem draws its next questions; then it is stopped
MOST = 4  # problems at a time; on a GPU a referee and its baseline hold a context each


class KeptReferees:
    """Children by problem, the least recently used first."""

    def __init__(self, most: int = MOST) -> None:
        self.most = most
        self._kept: dict[Hashable, dict[str, Child]] = {}
        self._leaving: list[Child] = []  # killed, and perhaps not yet gone

    def __len__(self) -> int:
        return len(self._kept)

    def members(self) -> list[Child]:
        """Everybody who stays."""
        return [child for members in self._kept.values() for child in members.values()]

    def take(self, problem: Hashable) -> dict[str, Child]:
        """The children at this problem, who belong to the caller now; {} when there are none, or one has died."""
        members = self._kept.pop(problem, {})
        if all(_alive(child) for child in members.values()):
            return members
        self._dismiss(members)
        return {}

    def keep(self, problem: Hashable, members: dict[str, Child], *, freeze_after_s: float = 0.0) -> None:
        """Let `members` stay, stopped: nothing of them works until they are taken. Whoever was at the problem, or at
        the one used longest ago, goes."""
        self._dismiss(self._kept.pop(problem, {}))
        for child in members.values():
            child.server.freeze(child, after_s=freeze_after_s)
        self._kept[problem] = members
        while len(self._kept) > self.most:
            self._dismiss(self._kept.pop(next(iter(self._kept))))

    def forget(self) -> None:
        """Their zygotes end, and they with them."""
        for child in (*self.members(), *self._leaving):
            child.release()
        self._kept.clear()
        self._leaving.clear()

    def clear(self) -> None:
        """Everybody goes. Returns when they have gone."""
        for members in self._kept.values():
            self._dismiss(members)
        self._kept.clear()
        self.settle()

    def settle(self) -> None:
        """Wait until those who were sent away are gone, END_S at most, and remove their folders."""
        deadline = time.monotonic() + END_S
        while any(_alive(child) for child in self._leaving) and time.monotonic() < deadline:
            time.sleep(0.005)
        for child in self._leaving:
            retire(child)
        self._leaving.clear()

    def _dismiss(self, members: dict[str, Child]) -> None:
        for child in members.values():
            try:
                if not child.server.gone:
                    child.server.kill(child)
            except JudgeError:
                pass  # its zygote is gone now, and it died with it
            self._leaving.append(child)


def _alive(child: Child) -> bool:
    try:
        if not child.server.gone:
            child.server.pump()
    except JudgeError:
        return False
    return child.status is None and not child.server.gone
