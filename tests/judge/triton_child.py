"""Runs the checks of one file in a child process and reports each: Triton interprets or compiles, never both."""

from __future__ import annotations

import ast
import fcntl
import functools
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
CHECKS = Path(__file__).parent / "triton_checks"
FILES = {
    "interpret": ("counts.py", "bounds.py", "bf16.py", "gaps.py", "styles.py", "provoked.py"),
    "compile": ("compiling.py", "styles.py", "provoked.py"),
}


def names(file: str) -> list[str]:
    """The checks of a file, without importing it."""
    tree = ast.parse((CHECKS / file).read_text())
    return [n.name for n in tree.body if isinstance(n, ast.FunctionDef) and n.name.startswith("check_")]


def failure(file: str, mode: str, check: str) -> str:
    """Empty when the check passed in a child that interprets or compiles, else its traceback."""
    found, output = _run(mode)
    return found.get(f"{file}:{check}", f"did not run:\n{output}")


@functools.cache
def _run(mode: str) -> tuple[dict[str, str], str]:
    """One child for all files of a mode and all workers of a test run: what it compiles takes most of its time."""
    run = os.environ.get("PYTEST_XDIST_TESTRUNUID")
    if not run:
        return _child(mode)
    place = Path(tempfile.gettempdir()) / f"adaexplore-checks-{run}-{mode}"
    with place.open("a+") as kept:
        fcntl.flock(kept, fcntl.LOCK_EX)
        kept.seek(0)
        said = kept.read()
        if not said:
            said = json.dumps(_child(mode))
            kept.write(said)
    found, output = json.loads(said)
    return found, output


def _child(mode: str) -> tuple[dict[str, str], str]:
    with tempfile.TemporaryDirectory() as folder:
        env = {"PATH": os.environ["PATH"], "OMP_NUM_THREADS": "1", "TMPDIR": folder, "TRITON_CACHE_DIR": folder}
        env |= {"PYTHONPATH": os.pathsep.join([os.environ.get("PYTHONPATH", ""), str(ROOT)]).strip(os.pathsep)}
        env |= {"TRITON_INTERPRET": "1"} if mode == "interpret" else {}
        command = [sys.executable, "-W", "error::RuntimeWarning", __file__, mode]
        done = subprocess.run(command, env=env, cwd=folder, capture_output=True, text=True, timeout=300)
    lines = [line for line in done.stdout.splitlines() if line.startswith("CHECK ")]
    found = dict(json.loads(line.removeprefix("CHECK ")) for line in lines)
    return found, f"{done.stdout[-500:]}\n{done.stderr[-3000:]}"


def _load(file: str) -> Any:
    spec = importlib.util.spec_from_file_location(file.removesuffix(".py"), CHECKS / file)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def main(mode: str) -> None:
    """In the child: install, import, run every check with the adapter or recorder."""
    if mode == "interpret":
        from judge.bench.interpreting import interpreter

        tool: Any = interpreter.install("sm_90")
    else:
        from judge.bench.compiling import recorded_triton

        tool = recorded_triton.install(90)
    for file in FILES[mode]:
        module = _load(file)
        for name in names(file):
            start = time.monotonic()
            outcome = _outcome(getattr(module, name), tool)
            took = f"{time.monotonic() - start:.2f} s"
            sys.stdout.write(f"{name}: {took}\nCHECK {json.dumps([f'{file}:{name}', outcome])}\n")
            sys.stdout.flush()


def _outcome(check: Callable[[Any], None], tool: Any) -> str:
    try:
        check(tool)
    except Exception:  # noqa: BLE001 - a check's failure is what this child reports
        return traceback.format_exc(limit=-6)
    return ""


if __name__ == "__main__":
    main(sys.argv[1])
