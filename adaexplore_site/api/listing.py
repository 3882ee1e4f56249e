"""Lists as JSON or CSV, a page at a time."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Generic, Literal, TypeVar

from django.http import HttpRequest, HttpResponse
from ninja import Field, Schema
from ninja.params.functions import Query

from adaexplore_site.core.csv_cells import safe

T = TypeVar("T", bound=Schema)
Whole = Annotated[int, Field(ge=0, le=2**63 - 1)]  # what a column can hold
Form = Literal["json", "csv"]
FORM = Query(None, description="csv for a file; else what Accept asks for")


class Listed(Schema, Generic[T]):
    """One page of a list. Give `next` back as `after` for the page behind it; null at the end."""

    items: list[T]
    next: int | None = None


def listed(request: HttpRequest, rows: Sequence[T], following: int | None, form: str | None) -> Any:
    """A page in the form asked for. A CSV names the next page in the header `X-Next`."""
    if (form or _accepted(request)) == "json":
        return {"items": list(rows), "next": following}
    headers = {"X-Next": str(following)} if following is not None else {}
    text = _csv([flat(row.model_dump(mode="json")) for row in rows])
    return HttpResponse(text, content_type="text/csv; charset=utf-8", headers=headers)


def _accepted(request: HttpRequest) -> str:
    return "csv" if (request.get_preferred_type(["application/json", "text/csv"]) == "text/csv") else "json"


def flat(value: Mapping[str, Any], begin: str = "") -> dict[str, Any]:
    """Objects as columns (`best.value`), lists as JSON."""
    found: dict[str, Any] = {}
    for name, one in value.items():
        if isinstance(one, Mapping):
            found |= flat(one, f"{begin}{name}.")
        else:
            found[begin + name] = json.dumps(one) if isinstance(one, list) else one
    return found


def _csv(rows: list[dict[str, Any]]) -> str:
    """Null is an empty cell. A column that is null in one row and an object in another has the object's columns."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    names = [name for name in names if not any(other.startswith(f"{name}.") for other in names)]
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(names)
    writer.writerows([["" if row.get(name) is None else safe(row[name]) for name in names] for row in rows])
    return out.getvalue()
