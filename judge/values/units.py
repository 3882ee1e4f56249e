"""Quantities as every page and sentence writes them. No Django: children of the bench write sentences, too."""

from __future__ import annotations


def counted(count: int, noun: str, more: str = "s") -> str:
    """ "1 kernel", "2 kernels"; `more` is what the noun takes where there is not just one."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}{more}"


def microseconds(value: float) -> str:
    """A time given in microseconds: `12.3 µs`, `1.24 ms`, `2.1 s`."""
    for limit, scale, unit in ((999.5, 1.0, "µs"), (999.5e3, 1e3, "ms")):
        if value < limit:  # 999.9 µs would be written as 1e+03
            return f"{value / scale:.3g} {unit}"
    return f"{value / 1e6:.3g} s" if value < 999.5e6 else f"{value / 1e6:,.0f} s"


def gib(count: float) -> str:
    """Bytes in GiB, below a tenth of one in MiB: `12.3 GiB`."""
    return f"{count / 2**30:,.1f} GiB" if count >= 0.1 * 2**30 else f"{count / 2**20:,.0f} MiB"
