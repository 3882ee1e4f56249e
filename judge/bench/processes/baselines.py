"""What the baselines of a problem took, and torch.compile's code for it, kept on disk for the next process.

One folder for one toolchain and GPU; a problem's hash tells its numerics, too. Compiled code comes from a child that
ran the problem, and goes only to children of the same problem. Standard library only.
"""

from __future__ import annotations

import dataclasses
import hashlib
import os
import re
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

from judge.bench.device.luck import Luck, remembered
from judge.bench.processes.artefacts import copy_kernels, give_kernels, read_json, write_json
from judge.bench.processes.children import folder_mode
from judge.bench.processes.plain_files import tree
from judge.values import ALTERNATIVES, Job, Outcome, ProblemSpec, Subject, Timing, Verdict

MOST_FILES, MOST_BYTES, MOST_DEPTH = 4000, 512 << 20, 8
KEPT_BYTES = 4 << 30
LUCK = "process_luck"  # of an outcome's environment: what its pairs of processes differed by
_NAME = re.compile(r"[A-Za-z0-9_+][A-Za-z0-9_.+-]{0,200}")


class Baselines:
    """Times and compiled code by problem, case and baseline."""

    def __init__(self, root: Path) -> None:
        self.root = root
        root.mkdir(parents=True, exist_ok=True, mode=0o700)

    def time(self, problem: ProblemSpec, subject: Subject) -> Timing | None:
        """The kept measurement, or None."""
        row = read_json(self._folder(problem, subject) / "time.json")
        try:
            return Timing.from_json(row) if row is not None else None
        except (ValueError, KeyError, TypeError):
            return None

    def keep(self, problem: ProblemSpec, timing: Timing) -> None:
        """Remember a measurement for later processes."""
        folder = self._folder(problem, timing.subject)
        folder.mkdir(exist_ok=True)
        write_json(folder / "time.json", dataclasses.asdict(timing))

    def luck(self, problem: ProblemSpec) -> Luck | None:
        """How far processes of this problem were apart, or None."""
        return Luck.read(read_json(self._folder(problem, Subject.EAGER) / "luck.json"))

    def keep_luck(self, problem: ProblemSpec, luck: Luck) -> None:
        """Remember it in place of what was known."""
        folder = self._folder(problem, Subject.EAGER)
        folder.mkdir(exist_ok=True)
        write_json(folder / "luck.json", dataclasses.asdict(luck))

    def forget(self, problem: ProblemSpec) -> None:
        """Measure again, e.g. because the device has drifted; compiled code stays."""
        for one in ALTERNATIVES:
            (self._folder(problem, one.subject) / "time.json").unlink(missing_ok=True)

    def forget_all(self) -> None:
        """Measure every problem again; compiled code stays."""
        for path in self.root.glob("*/time.json"):
            path.unlink(missing_ok=True)

    def seed(self, problem: ProblemSpec, subject: Subject, child: Path) -> bool:
        """Give a child its own copy of what its compiler made the last time. Whether there was any."""
        source = self._folder(problem, subject) / "code"
        if not source.is_dir():
            return False
        os.utime(source.parent)
        _copy_tree(source / "inductor", child / "inductor", folder_mode())
        give_kernels(source / "triton", child / "triton")
        return True

    def take(self, problem: ProblemSpec, subject: Subject, child: Path) -> bool:
        """Keep what a child's compiler made, unless it is kept already."""
        folder = self._folder(problem, subject)
        if (folder / "code").exists() or not any(tree(child / "inductor", _NAME, MOST_DEPTH)):
            return False
        folder.mkdir(exist_ok=True)
        fresh = Path(tempfile.mkdtemp(dir=folder))
        try:
            if not _copy_tree(child / "inductor", fresh / "inductor", 0o700):
                raise OSError("too much of it")
            copy_kernels(child / "triton", fresh / "triton")
            fresh.rename(folder / "code")
        except OSError:  # or somebody else was quicker
            shutil.rmtree(fresh, ignore_errors=True)
            return False
        self._trim()
        return True

    def _trim(self) -> None:
        """Forget the code used longest ago, beyond KEPT_BYTES; times stay, they are small."""
        total = 0
        for folder in sorted(self.root.iterdir(), key=lambda path: path.stat().st_mtime, reverse=True):
            total += sum(file.size for file in tree(folder, _NAME, MOST_DEPTH))
            if total > KEPT_BYTES:
                shutil.rmtree(folder / "code", ignore_errors=True)

    def _folder(self, problem: ProblemSpec, subject: Subject) -> Path:
        text = "\n".join((problem.hash, repr(problem.case), subject.value))
        return self.root / hashlib.sha256(text.encode()).hexdigest()


class KnownTimes:
    """Times of baselines: what this process knows, and, where there is a store, what earlier ones measured."""

    def __init__(self, store: Callable[[], Baselines | None]) -> None:
        self._store = store
        # Without a store, what was measured; None: it cannot run this problem.
        self._seen: dict[tuple[str, str | None, Subject], Timing | None] = {}
        self._luck: dict[tuple[str, str | None], Luck] = {}

    def time(self, problem: ProblemSpec, subject: Subject) -> Timing | None:
        """From an earlier evaluation on this device; None where nobody has measured it."""
        store = self._store()
        seen = self._seen.get((problem.hash, problem.case, subject))
        return seen or (store.time(problem, subject) if store is not None else None)

    def luck(self, problem: ProblemSpec) -> Luck | None:
        """What earlier evaluations saw of the luck of processes with this problem."""
        store = self._store()
        return self._luck.get((problem.hash, problem.case)) if store is None else store.luck(problem)

    def _learn(self, problem: ProblemSpec, new: Luck) -> None:
        luck, store = remembered(new, self.luck(problem)), self._store()
        if store is None:
            self._luck[problem.hash, problem.case] = luck
        else:
            store.keep_luck(problem, luck)

    def unknown(self, problem: ProblemSpec, subject: Subject) -> bool:
        """Whether nobody has tried yet."""
        return (problem.hash, problem.case, subject) not in self._seen and self.time(problem, subject) is None

    def remember(self, job: Job, outcome: Outcome) -> None:
        """Keep what a pass measured anew, and what it could not."""
        problem = job.problem
        if outcome.verdict is not Verdict.PASS or not outcome.timings:
            return
        if new := Luck.read(outcome.environment.get(LUCK)):
            self._learn(problem, new)
        store = self._store()
        said = outcome.environment.get("baselines")
        noted = said if isinstance(said, dict) else {}
        subjects = {one.subject for one in ALTERNATIVES if one.name in noted}  # tried, or left out
        found = {timing.subject: timing for timing in outcome.timings if timing.subject in subjects}
        for timing in found.values():
            if store is not None and not timing.detail.get("cached"):
                store.keep(problem, timing)
        for subject in subjects:
            if store is None or subject not in found:  # a store's times can be given up, by another process too
                self._seen.setdefault((problem.hash, problem.case, subject), found.get(subject))


def _copy_tree(source: Path, into: Path, mode: int) -> bool:
    """Copy plain files; False when there is more of it than may be kept. Raises OSError."""
    count = size = 0
    for file in tree(source, _NAME, MOST_DEPTH):
        count, size = count + 1, size + file.size
        if count > MOST_FILES or size > MOST_BYTES:
            return False
        place = into / file.place
        for missing in [part for part in (*reversed(place.parents), place) if not part.exists()]:
            missing.mkdir()
            missing.chmod(mode)
        file.copy(place / file.name)
        (place / file.name).chmod(mode & 0o666)
    return True
