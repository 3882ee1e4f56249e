"""What was spent, as values. Unknown is counted, never taken for zero. Pure."""

from __future__ import annotations

from dataclasses import dataclass, fields
from decimal import Decimal

CENT = Decimal("0.01")


@dataclass(frozen=True)
class Amount:
    """Sums of what is known and counts of what is not.

    `usd` is of the priced calls, `unpriced` counts those without a price, `untold` those without a count of tokens.
    Device time is of judged kernels in milliseconds, on GPUs and on the interpreter apart; `reused` counts verdicts
    that were known already, `saved_ms` what they had cost the first time.
    """

    calls: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    untold: int = 0
    usd: Decimal = Decimal(0)
    unpriced: int = 0
    gpu_ms: float = 0.0
    interpreter_ms: float = 0.0
    reused: int = 0
    saved_ms: float = 0.0

    def __add__(self, other: Amount) -> Amount:
        return Amount(*(getattr(self, one.name) + getattr(other, one.name) for one in fields(self)))

    @property
    def priced(self) -> int:
        return self.calls - self.unpriced

    @property
    def money(self) -> str:
        """`$3.10`, `at least $3.10 (4 calls unpriced)`, `unknown (4 calls unpriced)`; empty without a billed call."""
        return f"{self.known} {self.gaps}".strip()

    @property
    def known(self) -> str:
        """`$3.10`, `at least $3.10`, `unknown`; empty without a billed call."""
        if not self.calls:
            return ""
        return f"{'at least ' if self.unpriced else ''}{dollars(self.usd)}" if self.priced else "unknown"

    @property
    def gaps(self) -> str:
        """`(4 calls unpriced)`, or nothing."""
        return f"({plural(self.unpriced, 'call')} unpriced)" if self.unpriced else ""

    @property
    def tokens(self) -> str:
        """The same of tokens."""
        if not self.calls:
            return ""
        gap = f" ({plural(self.untold, 'call')} uncounted)" if self.untold else ""
        if self.untold == self.calls:
            return f"unknown{gap}"
        return f"{'at least ' if self.untold else ''}{self.tokens_in + self.tokens_out:,}{gap}"


def dollars(value: Decimal) -> str:
    """`$3.10`; below a dollar four digits, so that a small sum is not nothing."""
    return (
        f"${value:,.2f}" if value >= 1 or not value else f"${value:.4f}" if value >= Decimal("0.0001") else "< $0.0001"
    )


def plural(count: int, noun: str) -> str:
    """`4 calls`, `1 call`."""
    return f"{count:,} {noun}{'s' * (count != 1)}"
