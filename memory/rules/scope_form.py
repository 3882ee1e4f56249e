"""The scope of a rule as people type it into a form."""

from __future__ import annotations

import re
from collections.abc import Mapping

from adaexplore_site.core.audit import ActionRefused
from memory.rules.families import NAMES
from memory.rules.scopes import BadScope, Scope

FIELDS = {"family": 40, "arch": 20, "triton": 60}  # name of the field -> most characters
_OPERATOR = re.compile(r"aten\.\w+")
_ARCH = re.compile(r"(?:sm_|gfx)\d{2,4}[a-z]?")


def scope_asked(fields: Mapping[str, str]) -> Scope:
    """The scope of a form; empty or missing fields bind nothing. Raises ActionRefused for what no prompt could meet."""
    parts = {name: " ".join(fields.get(name, "").split()) for name in FIELDS}
    for name, most in FIELDS.items():
        if len(parts[name]) > most:
            raise ActionRefused(f"{parts[name][:20]!r}... is longer than {most} characters. Shorten it.")
    family, arch = parts["family"], parts["arch"]
    if family and family not in NAMES and not _OPERATOR.fullmatch(family):
        raise ActionRefused(f"{family!r} is no operator family. Write one of {', '.join(NAMES)}, or aten.linear.")
    if arch and not _ARCH.fullmatch(arch):
        raise ActionRefused(f"{arch!r} is no GPU architecture. Write one such as sm_90.")
    try:
        return Scope(**parts)
    except BadScope as error:
        raise ActionRefused(str(error)) from error
