"""What our own export says beside a modelled speedup: its range and its audit. Trusts nothing. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from judge.values import Audit, Basis


@dataclass(frozen=True)
class Modelled:
    """The range that a modelled speedup lies in, and whether it was audited where it was made."""

    low: float
    high: float
    n: int | None
    audit: Audit


def modelled_read(own: Mapping[str, Any], speedup: float | None) -> Modelled | None:
    """From a step of a search whose figures a time model made; None without a speedup. Raises ValueError."""
    if speedup is None:
        return None
    low, high, n, audit = _end(own.get("low")), _end(own.get("high")), own.get("n"), own.get("audit")
    if own.get("basis") != Basis.MODELLED or not 0 < low <= speedup <= high:
        raise ValueError("a MODELLED speedup must come with the range it lies in, low and high")
    counted = isinstance(n, int) and not isinstance(n, bool) and 0 <= n < 1 << 31
    return Modelled(low, high, n if counted else None, Audit(audit) if audit in list(Audit) else Audit.NONE)


def _end(value: Any) -> float:
    """One end of a range; 0, which no range has, for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float) or abs(value) > 1e300:
        return 0.0
    return float(value) if math.isfinite(value) else 0.0
