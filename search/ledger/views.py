"""The page of spending, and the same rows as files."""

from __future__ import annotations

import csv
import io
import json
from datetime import date
from typing import Any

from django.http import HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext, override
from django.utils.translation import gettext_lazy as _
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from adaexplore_site.core.downloads import attachment, safe
from adaexplore_site.core.requests import SiteRequest
from search.ledger.forms import BudgetForm, PriceForm
from search.ledger.models import ModelPrice
from search.ledger.prices import source
from search.ledger.spending import GROUPS, NAMES, Period, SpendPage, records, spending, standing_of

MOST_PRICES = 20
WORDS = {"search": _("By search"), "model": _("By model"), "kind": _("By kind of call")}


@never_cache
@require_safe
def spend(request: SiteRequest) -> HttpResponse:
    """Query: `by` (search, model, kind), `from` and `to` (days), and `as` for a file. A day that is none is 422."""
    query = {name: str(value) for name, value in request.GET.items()}
    by = query.get("by", "")
    by = by if by in GROUPS else GROUPS[0]
    texts = {name: query.get(name, "").strip()[:40] for name in ("from", "to")}
    period, error = _period(texts)
    form = query.get("as", "")
    if form in {"csv", "json"} and not error:
        with override("en"):  # a file reads the same for everybody
            return _file(spending(by, period, shown=None), by, texts, form)
    chosen = {"by": by, **({} if error else texts)}
    standing = standing_of(timezone.now())
    context = {
        "found": spending(by, period),
        "by": by,
        "texts": texts,
        "period": period,
        "error": error,
        "groups": [(_address({**chosen, "by": name}), WORDS[name], name == by) for name in GROUPS],
        "files": [(form.upper(), _address({**chosen, "as": form})) for form in ("csv", "json")],
        "standing": standing,
        "budget_form": BudgetForm.of(standing.budget),
        "price_form": PriceForm(),
        "price_list": source(),
        "set_prices": ModelPrice.objects.select_related("set_by").order_by("-id")[:MOST_PRICES],
    }
    return render(request, "ledger/spend.html", context, status=422 if error else 200)


def _period(texts: dict[str, str]) -> tuple[Period, str]:
    days: list[date | None] = []
    for name, text in texts.items():
        try:
            days.append(date.fromisoformat(text) if text else None)
        except ValueError:
            refusal = gettext("“%(text)s” is not a day for “%(name)s”: write it like 2026-11-30. All days are shown.")
            return Period(), refusal % {"text": text, "name": name}
    first, last = days
    if first and last and first > last:
        return Period(), gettext("The first day is after the last one. All days are shown.")
    return Period(first, last), ""


def _file(found: SpendPage, by: str, texts: dict[str, str], form: str) -> HttpResponse:
    rows = records(found)
    if form == "json":
        document: dict[str, Any] = {"by": by, **texts, "held_usd": str(found.held_usd), "rows": rows}
        return attachment("adaexplore_spend.json", json.dumps(document, indent=1).encode(), "application/json")
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(NAMES)
    writer.writerows([["" if value is None else safe(value) for value in row.values()] for row in rows])
    return attachment("adaexplore_spend.csv", out.getvalue().encode(), "text/csv; charset=utf-8")


def _address(query: dict[str, str]) -> str:
    return reverse("spend", query={name: value for name, value in query.items() if value})
