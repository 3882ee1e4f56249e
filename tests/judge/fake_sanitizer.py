"""A compute-sanitizer that runs the program and writes a report in the real one's form. `install` puts it on PATH."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

CLEAN = "========= COMPUTE-SANITIZER\n========= ERROR SUMMARY: 0 errors\n"
NO_RACE = "========= COMPUTE-SANITIZER\n========= RACECHECK SUMMARY: 0 hazards displayed (0 errors, 0 warnings)\n"
STRAY = """========= COMPUTE-SANITIZER
========= Invalid __global__ write of size 4 bytes
=========     at scale_kernel+0x270 in /tmp/run/candidate.py:14
=========     by thread (32,0,0) in block (3,0,0)
=========     Access at 0x7f3d12e00200 is out of bounds
=========     and is 1 bytes after the nearest allocation at 0x7f3d12e00000 of size 512 bytes
=========     Saved host backtrace up to driver entry point at kernel launch time
=========         Host Frame: [0x2c3b1f] in libcuda.so.1
=========
========= Invalid __global__ read of size 4 bytes
=========     at 0x150 in /tmp/run/candidate.py:12:scale_kernel(float *, float *)
=========     by thread (33,0,0) in block (3,0,0)
=========     Access at 0x7f3d12e00204 is out of bounds
=========
========= Program hit CUDA_ERROR_LAUNCH_FAILED (error 719) due to "unspecified failure" on API call to cuCtxSynchronize.
=========     Saved host backtrace up to driver entry point at error
=========
========= ERROR SUMMARY: 3 errors
"""
RACE = """========= COMPUTE-SANITIZER
========= Error: Race reported between Write access at sum_kernel+0x1b0 in /tmp/run/candidate.py:9
=========     and Read access at sum_kernel+0x2d0 in /tmp/run/candidate.py:11 [124 hazards]
=========
========= Warning: Race reported between Write access at sum_kernel+0x1b0 in /tmp/run/candidate.py:9
=========     and Write access at sum_kernel+0x1b0 in /tmp/run/candidate.py:9 [4 hazards]
=========
========= RACECHECK SUMMARY: 2 hazards displayed (1 error, 1 warning)
"""
FAKE = f"""#!{sys.executable}
import json, pathlib, subprocess, sys
arguments = sys.argv[1:]
options = {{}}
while arguments and arguments[0].startswith("--"):
    name = arguments.pop(0)
    options[name] = arguments.pop(0)
candidate = json.loads(pathlib.Path(arguments[3]).read_text())["candidate"]
here = pathlib.Path(__file__).parent
status = subprocess.call(arguments)
tool = options["--tool"]
wanted = here / f"{{tool}}.stray" if "# stray" in candidate else here / f"{{tool}}.clean"
if wanted.exists():
    pathlib.Path(options["--log-file"]).write_text(wanted.read_text())
sys.exit(status)
"""


def install(monkeypatch: pytest.MonkeyPatch, folder: Path) -> Path:
    """The executable. Its report on a candidate that holds "# stray" is an error."""
    place = folder / "cuda" / "bin"
    place.mkdir(parents=True)
    for name, text in (("memcheck", CLEAN), ("racecheck", NO_RACE)):
        (place / f"{name}.clean").write_text(text)
    for name, text in (("memcheck", STRAY), ("racecheck", RACE)):
        (place / f"{name}.stray").write_text(text)
    tool = place / "compute-sanitizer"
    tool.write_text(FAKE)
    tool.chmod(0o755)
    for folder_above in (place, place.parent, folder):
        folder_above.chmod(0o755)
    monkeypatch.setenv("CUDA_HOME", str(place.parent))
    monkeypatch.setenv("PATH", f"{place}:/usr/bin:/bin")
    return tool
