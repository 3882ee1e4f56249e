"""The fleet, what was spent, who did what, who asks, by the readers of their pages."""

from __future__ import annotations

from datetime import date
from typing import Any, Literal, TypeVar

from django.contrib.auth.models import User
from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from ninja import Field, Router, Schema
from ninja.errors import HttpError
from ninja.params.functions import Query

from adaexplore_site.activity.trail import chosen_of, trail_page
from adaexplore_site.api.searches import known
from adaexplore_site.api.shapes import (
    FORM,
    ActOut,
    AmountOut,
    DeviceOut,
    Form,
    JobOut,
    Listed,
    Me,
    Measures,
    SpendLine,
    Whole,
    basis_word,
    listed,
    shaped,
)
from adaexplore_site.core.access import roles_of
from judge.devices.models import Device
from search.fleet import queries
from search.fleet.queries import FleetRow, fleet_rows
from search.ledger.spending import Amount, Period, SpendPage, spending

router = Router()
A = TypeVar("A", bound=AmountOut)


class SpendOut(Schema):
    """Groups with the most money first, and the sum of all."""

    items: list[SpendLine]
    total: AmountOut
    held_usd: str = Field(description="reserved for calls in flight: the most that they may cost")
    next: int | None = None


@router.get("/fleet", response=Listed[DeviceOut], tags=["fleet"], summary="Devices: state, work, health")
def fleet(request: HttpRequest, format: Form | None = FORM) -> Any:
    """Those that judge here or elsewhere, then those that own imported numbers."""
    rows = fleet_rows(queries.ordered(Device.objects.all()), now=timezone.now())
    return listed(request, [_device(row) for row in rows], None, format)


def _device(row: FleetRow) -> DeviceOut:
    device, reading = row.device, row.reading
    return shaped(
        DeviceOut,
        device,
        row,
        id=device.pk,
        basis=basis_word(device.basis.value) if device.basis else None,
        alive=not row.dead if device.served else None,
        oldest_waiting_at=row.oldest,
        jobs=[JobOut(search=job.run_id, node=job.number, since=job.since) for job in row.jobs],
        noise_floor=row.noise.noise_floor if row.noise else None,
        gpu_use_percent=reading.use if reading else None,
        gpu_memory_used_mib=reading.memory_used if reading else None,
        gpu_temperature_c=reading.temperature_c if reading else None,
    )


@router.get("/spend", response=SpendOut, tags=["spend"], summary="Money, tokens and device time")
def spend(
    request: HttpRequest,
    by: Literal["search", "model", "kind"] = "search",
    first: date | None = Query(None, alias="from"),
    last: date | None = Query(None, alias="to"),
    format: Form | None = FORM,
) -> Any:
    """Days are UTC and both ends count. A CSV holds the groups alone."""
    if first and last and first > last:
        raise HttpError(422, "The first day is after the last one.")
    found = spending(by, Period(first, last), shown=None)
    lines = _lines(found)
    answer = listed(request, lines, None, format)
    if isinstance(answer, HttpResponse):
        return answer
    return SpendOut(items=lines, total=_amount(AmountOut, found.total), held_usd=str(found.held_usd))


def _lines(found: SpendPage) -> list[SpendLine]:
    measures = Measures(line.best for line in found.lines)
    return [
        _amount(
            SpendLine,
            line.amount,
            group=line.label,
            search=line.run.pk if line.run else None,
            best=measures.of(line.best),
            usd_per_tenth=line.per_tenth or None,
        )
        for line in found.lines
    ]


def _amount(shape: type[A], amount: Amount, **own: Any) -> A:
    reported = amount.calls - amount.untold
    return shaped(
        shape,
        amount,
        usd=known(amount.usd, amount.priced),
        tokens_in=known(amount.tokens_in, reported),
        tokens_out=known(amount.tokens_out, reported),
        gpu_s=amount.gpu_ms / 1e3,
        interpreter_s=amount.interpreter_ms / 1e3,
        saved_s=amount.saved_ms / 1e3,
        **own,
    )


@router.get("/activity", response=Listed[ActOut], tags=["activity"], summary="Who did what, newest first")
def activity(
    request: HttpRequest,
    who: str = "",
    verb: str = "",
    object: str = Query("", description="such as search 12, rule 3, device 1"),
    first: str = Query("", alias="from"),
    last: str = Query("", alias="to"),
    after: Whole | None = None,
    format: Form | None = FORM,
) -> Any:
    """The audit in words, a hundred acts at a time."""
    given = {"who": who, "verb": verb, "object": object, "from": first, "to": last}
    chosen = chosen_of({**given, "before": str(after or "")})
    if chosen.faults:
        raise HttpError(422, " ".join(chosen.faults))
    assert isinstance(request.user, User)
    rows, older = trail_page(chosen, request.user)
    found = [
        ActOut(
            id=row.entry.pk,
            at=row.entry.created_at,
            who=str(row.who),
            source=str(row.source),
            verb=row.entry.verb,
            what=str(row.text),
            change=row.change,
            object=f"{row.subject.kind} {row.subject.label}".strip(),
            undo=str(row.standing.label) or None,
        )
        for row in rows
    ]
    return listed(request, found, older, format)


@router.get("/me", response=Me, tags=["me"], summary="Who asks")
def me(request: HttpRequest) -> Any:
    """The user and the roles that are left by the scopes of the token."""
    assert isinstance(request.user, User)
    held = sorted(role.value for role in roles_of(request.user))
    return Me(user=request.user.get_username(), roles=held, token=getattr(request.user, "via", None))
