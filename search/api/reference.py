"""The reference of the API as a page of ours: Swagger's own comes from elsewhere, which our CSP forbids."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.http import HttpResponse
from django.shortcuts import render
from django.utils.text import slugify
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from adaexplore_site.requests import SiteRequest
from search.api.document import schema

ALL = "all"


@dataclass(frozen=True)
class Field:
    """One parameter or field of a body."""

    name: str
    type: str
    needed: bool
    words: str
    place: str  # path, query, header, body


@dataclass(frozen=True)
class Operation:
    """One line of the reference."""

    id: str
    method: str
    path: str
    summary: str
    words: str
    fields: tuple[Field, ...]
    answer: str


@never_cache
@require_safe
def docs(request: SiteRequest) -> HttpResponse:
    """The operations of a room with their fields. Query: `room`, or all of them with `all`."""
    rooms: dict[str, list[Operation]] = {}
    for path, methods in schema()["paths"].items():
        for method, one in methods.items():
            rooms.setdefault(one["tags"][0], []).append(_operation(path, method, one))
    slugs = {slugify(name): name for name in rooms}
    asked = request.GET.get("room", "")
    chosen = asked if asked in slugs or asked == ALL else next(iter(slugs))
    context = {
        "count": sum(map(len, rooms.values())),
        "links": [(slug, name, slug == chosen) for slug, name in {**slugs, ALL: "all"}.items()],
        "rooms": [(name, rows) for name, rows in rooms.items() if chosen in (slugify(name), ALL)],
    }
    return render(request, "api/docs.html", context)


def _operation(path: str, method: str, one: Mapping[str, Any]) -> Operation:
    fields = [
        Field(row["name"], _type(row["schema"]), row.get("required", False), _words(row), row["in"])
        for row in one.get("parameters", ())
    ]
    body = one.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema", {})
    needed = body.get("required", ())
    fields += [
        Field(name, _type(row), name in needed, row.get("description", ""), "body")
        for name, row in body.get("properties", {}).items()
    ]
    return Operation(
        id=one["operationId"],
        method=method.upper(),
        path=path,
        summary=one["summary"],
        words=one.get("description", ""),
        fields=tuple(fields),
        answer=_type(one["responses"][200].get("content", {}).get("application/json", {}).get("schema", {})),
    )


def _words(row: Mapping[str, Any]) -> str:
    return str(row.get("description") or row["schema"].get("description", ""))


def _type(row: Mapping[str, Any]) -> str:
    """`integer`, `text or null`, `list of SearchOut`."""
    if "$ref" in row:
        return str(row["$ref"]).rsplit("/", 1)[-1]
    if "anyOf" in row:
        return " or ".join(_type(one) for one in row["anyOf"])
    if "enum" in row:
        return " | ".join(str(one) for one in row["enum"])
    if "const" in row:
        return str(row["const"])
    if row.get("type") == "array":
        return f"list of {_type(row.get('items', {}))}"
    return {"string": "text", "number": "number"}.get(str(row.get("type", "")), str(row.get("type", "")))
