"""The page of a comparison: columns, rows, differences to the baseline, and the addresses of what comes next."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlencode

from django.urls import reverse

from judge.evaluations.kernel_files import options_of as compiler_options
from judge.evaluations.kernel_files import ptx_of
from search.compare.asked import MOST, Asked, names_of, swapped
from search.compare.columns import LIMIT, Column
from search.compare.deltas import cautions, race_why_not, why_not
from search.compare.table import case_rows, resource_rows, speed_rows, trust_rows
from search.diffing.cached import diff
from search.diffing.view import DiffView, options_of, parameters
from search.rechecks.queries import races_between

PANES = (
    ("source", "Source"),
    ("prompt", "Prompt"),
    ("ptx", "PTX"),
    ("sass", "SASS"),  # what is kept is PTX and machine code; nothing here takes that apart
    ("options", "Compiler options"),
)
_KEPT = {"ptx": ptx_of, "options": compiler_options}


def compare_context(asked: Asked, columns: Sequence[Column], query: Mapping[str, str]) -> dict[str, Any]:
    """What the template needs; `columns` may be fewer than two, then there is nothing to compare yet."""
    base = next((column for column in columns if column.key == asked.base), None)
    pane = query.get("pane", "")
    pane = pane if pane in dict(PANES) else "source"
    names = names_of(query, asked.keys)
    keep = {"k": _joined(asked), "base": str(asked.base or ""), "pane": pane}
    keep |= {f"name-{key}": name for key, name in names.items()}
    context: dict[str, Any] = {
        "columns": [_head(column, base, asked, keep) | {"name": names.get(column.key, "")} for column in columns],
        "errors": asked.errors,
        "base": base,
        "most": MOST,
        "room": MOST - len(columns),
        "keys": _joined(asked),
        "named": [(f"name-{key}", name) for key, name in names.items()],
        "here": _address(keep),
    }
    if base is None or len(columns) < 2:
        return context
    return context | {
        "sections": (
            ("Speed", speed_rows(columns, base)),
            ("Resources", resource_rows(columns, base)),
            ("Behind it", trust_rows(columns)),
        ),
        "base_place": columns.index(base),
        "cases": case_rows(columns),
        "limit": LIMIT,
        "pairs": [(column, race_why_not(column, base)) for column in columns if column is not base],
        "races": races_between([column.node.pk for column in columns]),
        "pane": pane,
        "panes": [(name, label, _address({**keep, "pane": name})) for name, label in PANES],
        "views": _views(columns, base, pane, keep, query),
        "swap": _swap(asked, keep),
        "files": [(form.upper(), _address({**keep, "as": form})) for form in ("csv", "json")],
    }


def _head(column: Column, base: Column | None, asked: Asked, keep: Mapping[str, str]) -> dict[str, Any]:
    others = ",".join(str(key) for key in asked.keys if key != column.key)
    here = base is not None and column.key == base.key
    return {
        "column": column,
        "is_base": here and len(asked.keys) > 1,
        "why_not": "" if base is None or here else why_not(column, base),
        "cautions": [] if base is None else cautions(column, base),
        "make_base": _address({**keep, "base": str(column.key)}),
        "without": _address({**keep, "k": others, "base": "" if here else keep["base"]}),
    }


def _views(
    columns: Sequence[Column], base: Column, pane: str, keep: Mapping[str, str], query: Mapping[str, str]
) -> list[dict[str, Any]]:
    """For each kernel but the baseline its difference; `missing` says whose text is not kept instead."""
    texts = {column.letter: _text(column, pane) for column in columns}
    found = []
    for column in columns:
        if column is base:
            continue
        opened = f"open{column.letter}"
        old, new = texts[base.letter], texts[column.letter]
        missing = [one for one in (base, column) if not texts[one.letter]]
        view = None
        if not missing:
            options = options_of({**query, "plain": "" if pane == "source" else "1"}, opened)
            view = DiffView(
                diff=diff(old, new, options),
                old=f"{base.letter}, {base.label}",
                new=f"{column.letter}, {column.label}",
                path=reverse("compare"),
                keep={**keep, **parameters(options, opened)},
                lasting={},
                downloads=tuple((one.label, _kernel(one)) for one in (base, column)) if pane == "source" else (),
                key=f"diff-{column.letter.lower()}",
                opened=opened,
            )
        found.append({"column": column, "view": view, "missing": missing})
    return found


def _text(column: Column, pane: str) -> str:
    if pane == "source":
        return column.node.source
    if pane in _KEPT:
        return _KEPT[pane](column.evaluation)
    if pane == "sass":
        return ""
    call = column.node.proposals.order_by("-attempt").values_list("prompt", flat=True).first()
    return call or ""


def _kernel(column: Column) -> str:
    return reverse("kernel-download", args=[column.key.run_id, column.key.number])


def _swap(asked: Asked, keep: Mapping[str, str]) -> str:
    other = swapped(asked)
    return _address({**keep, "k": _joined(other), "base": str(other.base or "")})


def _joined(asked: Asked) -> str:
    return ",".join(map(str, asked.keys))


def _address(keep: Mapping[str, str]) -> str:
    kept = {name: value for name, value in keep.items() if value and not (name == "pane" and value == "source")}
    return f"{reverse('compare')}?{urlencode(kept, safe=',')}" if kept else reverse("compare")
