"""Plain quantities for people: durations, sizes, counts. Unknown is a dash, never zero."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps

from django import template
from django.conf import settings
from django.utils.translation import gettext as _

from judge.bench.interpreting.calibration import factor, model_for
from judge.values import units

register = template.Library()
UNKNOWN = "—"


def quantity(show: Callable[[float], str]) -> Callable[[object], str]:
    """Register a filter for numbers. None, and the empty text that a template makes of a missing key, are a dash."""

    @wraps(show)
    def shown(value: object) -> str:
        return show(value) if isinstance(value, int | float) else UNKNOWN

    register.filter(show.__name__, shown)
    return shown


@quantity
def duration(seconds: float) -> str:
    """`0.4 s`, `12 s`, `4 min 10 s`, `2 h 05 min`, `3 d 4 h`."""
    if seconds < 10:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    if whole < 86400:
        return f"{whole // 3600} h {whole % 3600 // 60:02d} min"
    return f"{whole // 86400} d {whole % 86400 // 3600} h"


@quantity
def microseconds(value: float) -> str:
    """A time given in microseconds: `12.3 µs`, `1.24 ms`, `2.1 s`."""
    return units.microseconds(value)


@quantity
def milliseconds(value: float) -> str:
    """A time given in milliseconds."""
    return microseconds(value * 1e3)


@register.filter
def model_error(arch: str) -> str:
    """How wrong modelled numbers of an architecture may be, as a sentence."""
    return model_for(arch or settings.JUDGE_TARGET).sentence


@register.filter
def time_error(arch: str) -> str:
    """`within 1.4×`: of modelled times."""
    return _("within %(factor)s") % {"factor": factor(model_for(arch or settings.JUDGE_TARGET).time)}


@quantity
def si(value: float) -> str:
    """`1.23 G`: three significant digits and a decimal prefix."""
    for limit, prefix in ((1e12, " T"), (1e9, " G"), (1e6, " M"), (1e3, " k")):
        if abs(value) >= limit:
            return f"{value / limit:.3g}{prefix}"
    return f"{value:.3g} "


@quantity
def byte_size(value: float) -> str:
    """`12.5 MiB`: binary prefixes."""
    for limit, unit in ((1 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")):
        if value >= limit:
            return f"{value / limit:.3g} {unit}"
    return f"{value:.0f} B"


@register.filter
def shape(dims: object) -> str:
    """`64×1024`; a scalar is `scalar`."""
    if not isinstance(dims, list | tuple):
        return UNKNOWN
    return "×".join(str(dim) for dim in dims) or _("scalar")


@quantity
def error_size(value: float) -> str:
    """A numerical error: `3.1e-06`."""
    return f"{value:.2g}"


@register.filter
def words(code: str) -> str:
    """`compile_failed` or `compile.resources` as words."""
    return str(code).replace("_", " ").replace(".", ": ")


@register.simple_tag
def upload_limit() -> str:
    """The largest module that may be uploaded: `256 KiB`."""
    return f"{settings.MAX_PROBLEM_BYTES >> 10} KiB"


@quantity
def flop_rate(value: float) -> str:
    """`12 TFLOP/s`."""
    return f"{si(value)}FLOP/s"


@quantity
def percent(share: float) -> str:
    """A share of one: `43 %`, `0.6 %`."""
    return f"{share * 100:.2g} %" if share < 0.1 else f"{share * 100:.0f} %"


@quantity
def points(share: float) -> str:
    """A difference of two shares in percentage points: "+12.3 points"."""
    return _("%(share)s points") % {"share": f"{100 * share:+.1f}".replace("-", "−")}


@quantity
def significant(value: float) -> str:
    """A plain number with three significant digits: `0.24`, `1,370`."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


@quantity
def si_bytes(gigabytes: float) -> str:
    """Gigabytes as vendors write them: `3.35 TB`, `960 GB`."""
    return f"{gigabytes / 1e3:.3g} TB" if gigabytes >= 1e3 else f"{gigabytes:.3g} GB"
