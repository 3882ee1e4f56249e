"""The fastest kernels of every problem and device, to look at, compare and take away."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from django.http import HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from adaexplore_site.core.downloads import csv_file, json_file
from adaexplore_site.core.requests import SiteRequest
from judge.devices.models import Device
from judge.values import Basis
from search.interchange.exports import kernel_stem
from search.kernels.document import MOST, winners_csv, winners_json
from search.kernels.winners import DOUBTED, RETIRED, Wanted, Winner, all_winners, left_out, running_searches, winners
from search.rechecks.queries import Rechecked, last_rechecks

TABS = ((Basis.MEASURED, _("Measured")), (Basis.MODELLED, _("MODELLED")), (Basis.REPORTED, _("Reported elsewhere")))
DTYPES = (("given", _("As in the source")), *((name, name) for name in ("float64", "float32", "bfloat16", "float16")))


@never_cache
@require_safe
def kernel_list(request: SiteRequest) -> HttpResponse:
    """Query: `basis`, `problem`, `device`, `dtype`, `unassisted`, `marked`, `after`, and `as` for a file."""
    chosen = {
        name: request.GET.get(name, "").replace("\0", "").strip()[:80]
        for name in ("basis", "problem", "device", "dtype")
    }
    chosen |= {"unassisted": "1" if request.GET.get("unassisted") else ""}
    marked = request.GET.get("marked", "")
    chosen |= {"marked": marked if marked in (RETIRED, DOUBTED) else ""}
    errors = _errors(chosen)
    wanted = _wanted(chosen, request.GET.get("after", ""))
    if request.GET.get("as") in ("csv", "json"):
        return _file(request.GET["as"], wanted)
    page = winners(wanted)
    if not chosen["basis"] and not page.rows:  # without a GPU the first tab would be empty for ever
        for basis, _label in TABS[1:]:
            other = winners(_wanted({**chosen, "basis": basis.value}, ""))
            if other.rows:
                wanted, page = _wanted({**chosen, "basis": basis.value}, ""), other
                break
    here = {**chosen, "basis": wanted.basis.value}
    filtered = any(chosen[name] for name in ("problem", "device", "dtype", "unassisted", "marked"))
    again = last_rechecks([row.leader.node.pk for row in page.rows])
    retired, doubted = left_out(wanted.basis, wanted.device)
    context: dict[str, Any] = {
        "page": page,
        "rows": [_row(row, again.get(row.leader.node.pk), timezone.now()) for row in page.rows],
        "chosen": chosen,
        "errors": errors,
        "basis": wanted.basis.value,
        "here": request.get_full_path(),
        "retired": (retired, _url({**here, "marked": RETIRED})),
        "doubted": (doubted, _url({**here, "marked": DOUBTED})),
        "leading": _url({**here, "marked": ""}),
        "filtered": filtered,
        "tabs": [(_url({**chosen, "basis": basis.value}), label, basis is wanted.basis) for basis, label in TABS],
        "devices": Device.objects.with_times().order_by("name").values_list("name", flat=True)[:200],
        "dtypes": DTYPES,
        "next": _url({**here, "after": str(page.after)}) if page.after else "",
        "first": _url(here) if wanted.after else "",
        "files": [(form.upper(), _url({**here, "as": form})) for form in ("csv", "json")],
        "running": [] if page.rows else running_searches(),
    }
    return render(request, "kernels/kernel_list.html", context, status=422 if errors else 200)


def _row(row: Winner, again: Rechecked | None, now: datetime) -> dict[str, Any]:
    stem = kernel_stem(row.leader.node, row.problem)
    age_s = max((now - row.leader.evaluation.created_at).total_seconds(), 0.0)
    kernel = row.leader
    line = f"from {stem} import ModelNew"
    ours = row.device.served and not kernel.evaluation.elsewhere
    return {"winner": row, "kernel": kernel, "import_line": line, "age_s": age_s, "again": again, "rejudgeable": ours}


def _wanted(chosen: dict[str, str], after: str) -> Wanted:
    known = {basis.value: basis for basis, label in TABS}
    return Wanted(
        basis=known.get(chosen["basis"], Basis.MEASURED),
        problem=chosen["problem"],
        device=chosen["device"],
        dtype=chosen["dtype"] if chosen["dtype"] in dict(DTYPES) else "",
        unassisted=bool(chosen["unassisted"]),
        marked=chosen["marked"],
        after=int(after) if after.isascii() and after.isdigit() and len(after) < 16 else 0,
    )


def _errors(chosen: dict[str, str]) -> list[str]:
    """What no list can be asked for; it is left out."""
    found = []
    if chosen["basis"] and chosen["basis"] not in [basis.value for basis, label in TABS]:
        found.append(
            gettext("There is no basis %(basis)r: numbers are measured, modelled or reported.")
            % {"basis": chosen["basis"]}
        )
    if chosen["dtype"] and chosen["dtype"] not in dict(DTYPES):
        found.append(gettext("There is no data type %(dtype)r. Choose one from the list.") % {"dtype": chosen["dtype"]})
    if chosen["device"] and not Device.objects.filter(name=chosen["device"]).exists():
        found.append(gettext("There is no device %(device)r. Choose one from the list.") % {"device": chosen["device"]})
    return found


def _file(form: str, wanted: Wanted) -> HttpResponse:
    rows = all_winners(wanted, MOST)
    if form == "csv":
        return csv_file("kernels.csv", winners_csv(rows))
    return json_file("kernels.json", winners_json(rows))


def _url(query: dict[str, str]) -> str:
    kept = {name: value for name, value in query.items() if value}
    return reverse("kernel-list", query=kept) if kept else reverse("kernel-list")
