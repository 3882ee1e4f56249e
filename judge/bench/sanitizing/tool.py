"""Where compute-sanitizer is, and how it is called. Standard library only."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

TOOLS = ("memcheck", "racecheck", "initcheck", "synccheck")
ASKED = ("memcheck", "racecheck")  # where nobody names others
NOT_INSTALLED = (
    "compute-sanitizer is not installed on this machine. It is part of NVIDIA's CUDA toolkit: install the package "
    "cuda-sanitizer of your CUDA version, then set CUDA_HOME or put it on the PATH of the worker."
)
MOST_ERRORS = 100  # that one run prints


def sanitizer_path() -> str | None:
    """The executable, None where there is none."""
    homes = [Path(os.environ[name]) / "bin" for name in ("CUDA_HOME", "CUDA_PATH") if name in os.environ]
    folders = os.pathsep.join([os.environ.get("PATH", ""), *map(str, homes), "/usr/local/cuda/bin"])
    return shutil.which("compute-sanitizer", path=folders)


def command(path: str, tool: str, log: Path, program: list[str]) -> list[str]:
    """The whole call. The report goes into a file of its own: the program's output is the candidate's."""
    options = ["--tool", tool, "--log-file", str(log), "--print-limit", str(MOST_ERRORS)]
    return [path, *options, "--target-processes", "application-only", *program]


def folders_of(path: str) -> list[str]:
    """What the tool reads of its own: the folder that holds `compute-sanitizer` and its libraries, and its links."""
    places = [Path(path), Path(path).resolve()]
    return sorted({str(place.parent) for place in places} | {str(place.parent.parent) for place in places})
