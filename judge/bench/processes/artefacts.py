"""Compiled kernels on disk, kept from one process for the next. Written by the runner only. Standard library only.

What a recorder's folder holds was made by a candidate's process: it is copied as bytes, by name and size and from open
folders, never opened as anything else, and given to children of the same candidate only. What the judge built itself
(host stubs, the same for everybody) lies apart.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import re
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from judge.bench.processes.children import folder_mode
from judge.bench.processes.plain_files import PlainFile, files, folders, read_plain
from judge.bench.processes.stopping import look
from judge.values.texts import canonical_hash

FOLDER = re.compile(r"[A-Za-z0-9_-]{20,128}")  # Triton's names: a hash in base 32
FILE = re.compile(r"[A-Za-z0-9_+][A-Za-z0-9_.+-]{0,200}")
MOST_FILES, MOST_BYTES = 2000, 256 << 20  # of one candidate
KEPT_BYTES, KEPT_ENTRIES = 2 << 30, 4000  # of all
CLAIM_S = 0.02  # between two looks at a claim that somebody else holds
_GROUP = "__grp__"


@dataclass(frozen=True)
class Handover:
    """What one child was given: folders of its cache, and what its assignment says of autotuners."""

    key: str
    folder: Path
    given: frozenset[str]
    payload: dict[str, Any]

    def made_here(self) -> tuple[int, int]:
        """(kernels, host stubs) that the child had to compile itself. While its folder exists."""
        return made_here(self.folder / "triton", self.given)


class Artefacts:
    """One folder for one toolchain and target. `kernels/<key>` is a candidate's, `shared` the judge's own."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.shared = root / "shared"
        for folder in (root / "kernels", self.shared):
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)

    def known(self, key: str) -> dict[str, Any] | None:
        """What was noted beside the kernels of `key`, or None when there are none. Marks them as used."""
        folder = self._folder(key)
        try:
            os.utime(folder)
        except OSError:
            return None
        return read_json(folder / "report.json")

    @contextmanager
    def claim(self, key: str) -> Iterator[None]:
        """One at a time, over all processes: who waits finds what the other compiled. The kernel frees it. Raises
        Stopped while it waits."""
        with (self.root / "kernels" / f"{self._folder(key).name}.lock").open("w") as file:
            while not _locked(file.fileno()):
                look()
                time.sleep(CLAIM_S)
            yield

    def note(self, key: str, report: dict[str, Any]) -> None:
        """Keep a report beside the kernels; from now on they are known."""
        folder = self._folder(key)
        folder.mkdir(exist_ok=True)
        write_json(folder / "report.json", report)

    def take(self, cache: Path, key: str) -> int:
        """Copy the kernels of a Triton cache folder that nobody writes to any more; returns how many files."""
        return copy_kernels(cache, self._folder(key) / "cache")

    def share(self, cache: Path) -> int:
        """Copy what a child of the judge's own built, for every candidate."""
        return copy_kernels(cache, self.shared)

    def seed(self, key: str, cache: Path) -> frozenset[str]:
        """Give a child its own copy: its candidate's kernels and the shared stubs. Returns the folders' names."""
        return give_kernels(self._folder(key) / "cache", cache) | give_kernels(self.shared, cache)

    def stubs(self) -> dict[str, Any]:
        """Which host modules lie in `shared`: utilities, whether launchers are generic, digests of launchers."""
        found = read_json(self.root / "stubs.json") or {}
        return {"utilities": False, "generic": False, "launchers": [], **found}

    def note_stubs(self, index: dict[str, Any]) -> None:
        write_json(self.root / "stubs.json", index)

    def trim(self) -> None:
        """Forget what was used longest ago, beyond the limits."""
        folders = [path for path in (self.root / "kernels").iterdir() if path.is_dir()]
        entries = sorted(folders, key=lambda path: path.stat().st_mtime, reverse=True)
        total = 0
        for number, entry in enumerate(entries):
            total += sum(path.stat().st_size for path in entry.rglob("*") if path.is_file())
            if number >= KEPT_ENTRIES or total > KEPT_BYTES:
                shutil.rmtree(entry, ignore_errors=True)
                entry.with_name(f"{entry.name}.lock").unlink(missing_ok=True)

    def _folder(self, key: str) -> Path:
        if not re.fullmatch(r"[0-9a-f]{64}", key):
            raise ValueError(f"{key!r} is no key")
        return self.root / "kernels" / key


def _locked(fd: int) -> bool:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def artefact_key(source: str, problem_hash: str, case: str | None) -> str:
    """Of the text that is loaded: its line numbers decide Triton's own keys."""
    parts = [canonical_hash(source), problem_hash, repr(case)]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def made_here(cache: Path, seeded: frozenset[str]) -> tuple[int, int]:
    """(kernels, host stubs) in a child's cache folder that it was not given: what it had to compile itself."""
    kernels = stubs = 0
    for name, folder in folders(cache, FOLDER):
        if name in seeded:
            continue
        names = [file.name for file in _files(folder)]
        kernels += any(name.endswith(".cubin") for name in names)
        stubs += any(name.endswith(".so") for name in names)
    return kernels, stubs


def read_json(path: Path) -> dict[str, Any] | None:
    """What `write_json` wrote there; None where nothing is, or nothing whole."""
    try:
        found = json.loads(path.read_text())
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) else None


def write_json(path: Path, value: dict[str, Any]) -> None:
    """At once: readers see the old or the new."""
    handle, name = tempfile.mkstemp(dir=path.parent)
    with os.fdopen(handle, "w") as file:
        json.dump(value, file)
    Path(name).replace(path)


def _files(folder: int) -> list[PlainFile]:
    """Triton's own lists of them are left out, since they hold paths."""
    return [file for file in files(folder, FILE) if not file.name.startswith(_GROUP)]


def copy_kernels(cache: Path, into: Path) -> int:
    """Copy the kernels of a Triton cache folder; how many files. Each is moved into place at once, whole."""
    into.mkdir(parents=True, exist_ok=True)
    count = size = 0
    for name, folder in folders(cache, FOLDER):
        wanted = _files(folder)
        count, size = count + len(wanted), size + sum(file.size for file in wanted)
        if count > MOST_FILES or size > MOST_BYTES:
            break
        if not wanted or (into / name).exists():
            continue
        fresh = Path(tempfile.mkdtemp(dir=into, prefix="."))
        try:
            for file in wanted:
                file.copy(fresh / file.name)
            fresh.rename(into / name)
        except OSError:  # a link by now, or somebody else was quicker
            shutil.rmtree(fresh, ignore_errors=True)
    return count


def give_kernels(source: Path, cache: Path) -> frozenset[str]:
    """Copy kept kernels into a child's Triton cache folder; their folders' names."""
    given = set()
    for name, folder in folders(source, FOLDER):
        _give(_files(folder), cache / name)
        given.add(name)
    return frozenset(given)


def _give(kernel: list[PlainFile], into: Path) -> None:
    """One kernel for a child, with the list of its files as Triton looks for it."""
    mode = folder_mode()
    for place in (into.parent, into):
        if not place.exists():
            place.mkdir()
            place.chmod(mode)
    for file in kernel:
        file.copy(into / file.name)
        (into / file.name).chmod(mode & 0o666)
    names = [file.name for file in kernel]
    for name in names:
        if name.endswith(".json") and not name.endswith(".autotune.json"):
            listed = into / f"{_GROUP}{name}"
            listed.write_text(json.dumps({"child_paths": {each: str(into / each) for each in names}}))
            listed.chmod(mode & 0o666)


MOST_TEXTS, MOST_TEXT_BYTES = 40, 2 << 20


def pool_name(toolchain: str) -> str:
    """The folder of one toolchain and target."""
    return re.sub(r"[^A-Za-z0-9.+-]+", "_", toolchain)


def kept_texts(root: Path, toolchain: str, key: str, suffix: str) -> list[tuple[str, str]]:
    """(file name, text) of the kept files of a candidate with this suffix, such as `.ptx`, by name; [] without any.

    `root` is the folder of all toolchains, `key` an `artefact_key`. At most MOST_FILES of together MOST_BYTES.
    """
    if not re.fullmatch(r"[0-9a-f]{64}", key):
        raise ValueError(f"{key!r} is no key")
    cache = root / pool_name(toolchain) / "kernels" / key / "cache"
    paths = [cache / name / file.name for name, fd in folders(cache, FOLDER) for file in _files(fd)]
    paths = [path for path in paths if path.name.endswith(suffix)]
    found: list[tuple[str, str]] = []
    left = MOST_TEXT_BYTES
    for path in sorted(paths, key=lambda path: (path.name, path.parent.name))[:MOST_TEXTS]:
        try:
            data = read_plain(path, left) or b""
        except OSError:
            continue
        left -= len(data)
        if data:
            found.append((path.name, data.decode("utf-8", "replace")))
    return found
