"""`python -m judge.bench.names`: which names the installed torch and Triton have, as JSON. Runs no foreign code."""

from __future__ import annotations

import importlib
import json
import pkgutil
import sys
import warnings
from collections.abc import Iterable
from types import ModuleType

import torch
import triton

from judge.bench.sandboxing.sandbox import die_with_parent

PROTOCOL = 1
_MODULES = """
triton triton.compiler triton.runtime triton.testing triton.tools
triton.language triton.language.core triton.language.math triton.language.random triton.language.semantic
triton.language.standard triton.language.extra triton.language.extra.libdevice
triton.language.extra.cuda triton.language.extra.cuda.libdevice
triton.language.extra.hip triton.language.extra.hip.libdevice
torch torch.amp torch.autograd torch.backends torch.backends.cuda torch.backends.cudnn torch.backends.mkldnn
torch.compiler torch.cuda torch.cuda.amp torch.fft torch.func torch.jit torch.library torch.linalg
torch.nn torch.nn.functional torch.nn.init torch.nn.modules torch.nn.parameter torch.nn.utils
torch.random torch.sparse torch.special torch.utils
"""
MODULES = _MODULES.split()
CLASSES = ("triton.language.tensor", "triton.Config")


def main() -> int:
    """Print the document. Nothing else may write to standard output."""
    die_with_parent()
    warnings.simplefilter("ignore")
    names = {name: sorted(of_module(module)) for name in MODULES if (module := _imported(name)) is not None}
    names |= {name: sorted(of_class(name)) for name in CLASSES}
    versions = {"torch": torch.__version__, "triton": triton.__version__}
    json.dump({"protocol": PROTOCOL, **versions, "names": names}, sys.stdout)
    return 0


def of_module(module: ModuleType) -> set[str]:
    """What it has, what can be imported from it, and what it makes when first asked."""
    parts: Iterable[pkgutil.ModuleInfo] = pkgutil.iter_modules(getattr(module, "__path__", ()))
    late = [*getattr(module, "_lazy_modules", ()), *getattr(module, "_deprecated_attrs", ())]
    return {*dir(module), *(part.name for part in parts), *late}


def of_class(name: str) -> set[str]:
    """What it has, and whatever its `__init__` speaks of: that sets the attributes of an object."""
    module, _, last = name.rpartition(".")
    found = getattr(importlib.import_module(module), last)
    return {*dir(found), *found.__init__.__code__.co_names}


def _imported(name: str) -> ModuleType | None:
    """None for a module that another version has."""
    try:
        return importlib.import_module(name)
    except ImportError:
        return None


if __name__ == "__main__":
    sys.exit(main())
