"""Files as answers: to save, never rendered by a browser, with no cell that a spreadsheet takes for a formula."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Iterable
from typing import Any

from django.http import HttpResponse


def attachment(name: str, body: bytes, content_type: str) -> HttpResponse:
    """A file to save, that no browser renders."""
    headers = {
        "Content-Disposition": f'attachment; filename="{clean_name(name)}"',
        "X-Content-Type-Options": "nosniff",
        "Content-Security-Policy": "sandbox",
    }
    return HttpResponse(body, content_type=content_type, headers=headers)


def csv_file(name: str, text: str) -> HttpResponse:
    """Such text as `csv_text` makes, to save."""
    return attachment(name, text.encode(), "text/csv; charset=utf-8")


def csv_text(rows: Iterable[Iterable[object]]) -> str:
    """The rows as CSV, the heads first. Whoever has text of strangers in them calls `safe`."""
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows(rows)
    return out.getvalue()


def json_file(name: str, document: Any) -> HttpResponse:
    """A document to save, indented."""
    return attachment(name, json.dumps(document, indent=1).encode(), "application/json")


def clean_name(name: str) -> str:
    """Letters, digits, dots, dashes and underscores only; never hidden, never empty."""
    cleaned = re.sub(r"[^A-Za-z0-9._-]+", "-", name).lstrip(".-")[-120:]
    return cleaned or "kernel"


FORMULA = ("=", "+", "-", "@", "\t", "\r")


def safe(value: object) -> object:
    """The value; of a text that begins like a formula, the text with an apostrophe before it."""
    return f"'{value}" if isinstance(value, str) and value.startswith(FORMULA) else value
