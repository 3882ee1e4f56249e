"""What compilers left beside kept kernels, for people to read: texts of strangers, bounded, never through a link."""

from __future__ import annotations

import os
import re
import stat
from pathlib import Path

from judge.bench.processes.artefacts import FILE, FOLDER

MOST_FILES, MOST_BYTES = 40, 2 << 20


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
    try:
        folders = sorted(entry.name for entry in os.scandir(cache) if FOLDER.fullmatch(entry.name))
        files = [
            cache / folder / entry.name
            for folder in folders
            for entry in sorted(os.scandir(cache / folder), key=lambda entry: entry.name)
            if FILE.fullmatch(entry.name) and entry.name.endswith(suffix)
        ]
    except OSError:
        return []
    found: list[tuple[str, str]] = []
    left = MOST_BYTES
    for path in sorted(files, key=lambda path: (path.name, path.parent.name))[:MOST_FILES]:
        data = _read(path, left)
        left -= len(data)
        if data:
            found.append((path.name, data.decode("utf-8", "replace")))
    return found


def _read(path: Path, most: int) -> bytes:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return b""
    with os.fdopen(fd, "rb") as file:
        return file.read(most) if stat.S_ISREG(os.fstat(fd).st_mode) else b""
