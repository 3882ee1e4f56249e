"""Kernels beside each other: `/compare?k=<search>.<node>&k=…`, as a page and as files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlencode

from django.http import HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils.translation import gettext, override
from django.utils.translation import gettext_lazy as _
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe
from django.views.decorators.vary import vary_on_headers
from django_htmx.http import replace_url

from adaexplore_site.core.downloads import csv_file, json_file
from adaexplore_site.core.requests import SiteRequest
from judge.evaluations.artefacts import options_of as compiler_options
from judge.evaluations.artefacts import ptx_of
from search.compare.columns import LIMIT, MOST, Asked, Column, asked_of, columns, names_of, swapped, without_missing
from search.compare.document import comparison_csv, comparison_json
from search.compare.table import case_rows, cautions, race_why_not, sections, why_not
from search.diffing.cached import diff
from search.diffing.view import DiffView, options_of, parameters
from search.rechecks.queries import races_between

PANES = (
    ("source", _("Source")),
    ("prompt", _("Prompt")),
    ("ptx", "PTX"),
    ("sass", "SASS"),  # what is kept is PTX and machine code; nothing here takes that apart
    ("options", _("Compiler options")),
)


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
    other = swapped(asked)
    return context | {
        "sections": sections(columns, base),
        "base_place": columns.index(base),
        "cases": case_rows(columns),
        "limit": LIMIT,
        "pairs": [(column, race_why_not(column, base)) for column in columns if column is not base],
        "races": races_between([column.node.pk for column in columns]),
        "pane": pane,
        "panes": [(name, label, _address({**keep, "pane": name})) for name, label in PANES],
        "views": _views(columns, base, pane, keep, query),
        "swap": _address({**keep, "k": _joined(other), "base": str(other.base or "")}),
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
        missing = gettext(" and ").join(one.letter for one in (base, column) if not texts[one.letter])
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
    match pane:
        case "source":
            return column.node.source
        case "ptx":
            return ptx_of(column.evaluation)
        case "options":
            return compiler_options(column.evaluation)
        case "prompt":
            return column.node.proposals.order_by("-attempt").values_list("prompt", flat=True).first() or ""
    return ""


def _kernel(column: Column) -> str:
    return reverse("kernel-download", args=[column.key.run_id, column.key.number])


def _joined(asked: Asked) -> str:
    return ",".join(map(str, asked.keys))


def _address(keep: Mapping[str, str]) -> str:
    kept = {name: value for name, value in keep.items() if value and not (name == "pane" and value == "source")}
    return f"{reverse('compare')}?{urlencode(kept, safe=',')}" if kept else reverse("compare")


@never_cache
@vary_on_headers("HX-Request")
@require_safe
def compare(request: SiteRequest) -> HttpResponse:
    """Query: `k` (two to four kernels), `base` (one of them), `pane` (see PANES), `name-<k>`, `as` for a file, and
    how the differences are shown (search.diffing.view). What cannot be understood is 422, the rest is shown."""
    query = {name: str(value)[:2_000] for name, value in request.GET.items()}
    for name, value in request.session.get("diff", {}).items():
        if name != "base":  # of a node's difference
            query.setdefault(name, value)
    asked = asked_of([word[:400] for word in request.GET.getlist("k")], query.get("base", ""))
    found = columns(asked.keys)
    asked = without_missing(asked, [column.key for column in found])
    base = next((column for column in found if column.key == asked.base), None)
    form = query.get("as", "")
    if form in ("csv", "json") and base is not None:
        names = {str(key): name for key, name in names_of(query, asked.keys).items()}
        with override("en"):  # files are the same in every language
            if form == "csv":
                return csv_file("comparison.csv", comparison_csv(found, base, names))
            return json_file("comparison.json", comparison_json(found, base, names))
    context = compare_context(asked, found, query)
    response = render(request, "compare/compare.html", context, status=422 if asked.errors else 200)
    if request.htmx and not request.htmx.history_restore_request:
        replace_url(response, request.get_full_path())
    return response
