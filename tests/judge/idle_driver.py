"""A CUDA driver library that does nothing and reports success, so that Triton's own host code runs without a GPU."""

from __future__ import annotations

import re
import subprocess
from importlib.util import find_spec
from pathlib import Path

_HEAD = """
#include <stddef.h>
#include <stdint.h>
int cuPointerGetAttribute(uint64_t *out, int what, uint64_t pointer) { *out = pointer; return 0; }
int cuCtxGetCurrent(void **context) { *context = (void *)1; return 0; }
int cuDeviceGet(int *device, int number) { *device = number; return 0; }
int cuDeviceGetAttribute(int *value, int what, int device) { *value = what == 97 ? 232448 : 1024; return 0; }
int cuFuncGetAttribute(int *value, int what, void *function) { *value = what == 0 ? 1024 : 16; return 0; }
int cuModuleLoadData(void **module, const void *image) { *module = (void *)1; return 0; }
int cuModuleGetFunction(void **function, void *module, const char *name) { *function = (void *)1; return 0; }
int cuGetErrorString(int code, const char **text) { *text = "none"; return 0; }
int cuDriverGetVersion(int *version) { *version = 13000; return 0; }
int cuInit(unsigned flags) { return 0; }
int cuDeviceGetCount(int *count) { *count = 1; return 0; }
"""


def build(folder: Path) -> Path:
    """Write `folder`/libcuda.so.1 with every call that Triton's host code names. Needs a C compiler."""
    spec = find_spec("triton")
    assert spec is not None and spec.origin is not None
    host = Path(spec.origin).parent / "backends" / "nvidia"
    texts = [path.read_text() for path in (host / "driver.c", host / "driver.py")]
    names = {name for text in texts for name in re.findall(r"\b(cu[A-Z][A-Za-z0-9]+)\b", text)}
    written = set(re.findall(r"int (cu\w+)\(", _HEAD))
    rest = "\n".join(f"int {name}() {{ return 0; }}" for name in sorted(names - written))
    (folder / "cuda.c").write_text(_HEAD + rest)
    library = folder / "libcuda.so.1"
    subprocess.run(["cc", "-shared", "-fPIC", "-w", "-o", str(library), str(folder / "cuda.c")], check=True)
    return library
