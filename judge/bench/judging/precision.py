"""How far a kernel may be from the fp64 oracle: error measures, the allowed error, coarser formats.

Errors are divided by the standard deviation of the oracle, so that tiny outputs do not pass for being tiny.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch

from judge.bench.exchange.nested import mapped
from judge.bench.exchange.parts import PART, all_equal, in_parts

MANY = 16  # elements of an output whose RMS is a mean
SPARSE = 2.0  # one draw of a few numbers is compared with one of the reference's
K_RMS, K_MAX = 4.0, 8.0
UNITS_RMS, UNITS_MAX, FEW_UNITS = 32.0, 128.0, 4.0
LONGEST_CHAIN = 1 << 16  # additions one after another: a longer reduction is split among threads by everybody
ILL_CONDITIONED = 1e-2
TF32 = "tf32"
CUT = "tf32 cut"  # TF32 without rounding: what tensor cores take of a float32 that a kernel hands them
ROUNDOFF = {torch.float64: 2.0**-53, torch.complex128: 2.0**-53}  # every other type accumulates in float32
FP32_ROUNDOFF = 2.0**-24
TF32_ROUNDOFF = 2.0**-11
CHAOS = 0.5  # a coarser format's error beyond which nothing follows for the finer one
BITS = {"tf32": (11.0, 24.0), "float32": (24.0, 53.0)}  # of a format's significand, and of the one above it
NARROW = frozenset({torch.float32, torch.float16, torch.bfloat16})
TELLING_UNITS = 64.0  # a coarse error below this is honest rounding, not the format's
FLAT = 1e-6  # spread over size: below it the oracle does not vary
MOST_SQUARED_32, MOST_SQUARED_64 = 1e3, 1e9  # mean square over variance up to which a type tells the variance
ROUNDED_SHARE = 2e-5  # of an integer output's elements that lie so near a step that rounding decides; more is a bug
VANISHED = 100.0  # times the oracle's spread: a reference that errs by more gives nothing but roundings
ROOM, FEW_ROOM = 64.0, 4096.0  # times the reference's roundings, where the right answer is zero; of few numbers
ORDER = 4.0  # times an amplified rounding: three standard deviations of a sum of one sign in random order
ONE_BY_ONE = 0.26  # of what lies far from zero: roundings of terms of one sign that are added one after another
LEAST_UNITS = 16.0  # another way to compute an exponential is this far off


@dataclass(frozen=True)
class Errors:
    """RMS and largest error, both over the oracle's standard deviation (over its RMS where it does not vary)."""

    rms: float
    largest: float

    @property
    def finite(self) -> bool:
        return math.isfinite(self.rms) and math.isfinite(self.largest)

    @property
    def vanish(self) -> bool:
        """Whether these, of a reference, say that the right answer is zero but for roundings, as the gradient of a bias
        before a normalisation is."""
        return self.finite and self.rms > VANISHED


def errors(value: torch.Tensor, oracle: torch.Tensor) -> Errors:
    """Errors of `value` against `oracle` (fp64). Equal infinities and NaN in the same place count as right."""
    found = Gathered()
    found.add(value, oracle)
    return found.errors()


def row_weights(oracle: torch.Tensor) -> torch.Tensor | None:
    """Weights that give every row of `oracle` (fp64; its last dimension) the same RMS; None where there are no rows."""
    if oracle.dim() < 2 or oracle.is_complex() or not oracle.numel():
        return None
    size = torch.linalg.vector_norm(oracle, dim=-1, keepdim=True) / math.sqrt(oracle.shape[-1])
    return torch.where(size > 0, 1 / size, 1.0)


def weighted(value: torch.Tensor, weights: torch.Tensor | None) -> torch.Tensor:
    """`value` times `weights` in fp64; itself without them."""
    return value if weights is None else value.double() * weights


def weighted_errors(value: torch.Tensor, oracle: torch.Tensor, weights: torch.Tensor | None) -> Errors:
    """`errors` of both once they are weighted."""
    found = Gathered()
    found.add(value, oracle, weights)
    return found.errors()


class Gathered:
    """Errors of a value and its oracle (fp64) that are given piece by piece."""

    def __init__(self) -> None:
        self._parts: list[Facts] = []

    def add(self, value: torch.Tensor, oracle: torch.Tensor, weights: torch.Tensor | None = None) -> None:
        if oracle.numel() == 0:
            return
        if oracle.is_complex():
            value, oracle = torch.view_as_real(value.resolve_conj()), torch.view_as_real(oracle.resolve_conj())
        given = (value.expand(oracle.shape), oracle, *([] if weights is None else [weights]))
        for left, right, *each in in_parts(*given):
            left, right = left.double(), right.double()
            self._parts.append(_exactly(left * each[0], right * each[0]) if each else _exactly(left, right))

    def errors(self) -> Errors:
        return _over_spread(*_joined(self._parts)) if self._parts else Errors(0.0, 0.0)

    def spread(self) -> float:
        """Standard deviation of the oracle's finite elements; 0 where there are none."""
        found = _joined(self._parts)[1] if self._parts else 0.0
        return 0.0 if math.isnan(found) else found


@dataclass(frozen=True)
class Facts:
    """Of one part: the oracle's finite elements by number, mean, RMS and spread; RMS and largest of the differences."""

    count: float
    mean: float
    size: float
    spread: float
    elements: int
    far: float
    worst: float


def _exactly(value: torch.Tensor, oracle: torch.Tensor) -> Facts:
    return _finite_facts(value, oracle, MOST_SQUARED_64) or _facts(value, oracle)


def _finite_facts(value: torch.Tensor, oracle: torch.Tensor, most_squared: float) -> Facts | None:
    """In few passes over memory. None where something is not finite, or the mean leaves the spread too few digits."""
    norm, difference = torch.linalg.vector_norm, value - oracle
    found = torch.stack([norm(oracle), oracle.mean(), norm(difference), norm(difference, math.inf)]).double()
    length, mean, far, worst = found.tolist()
    count = oracle.numel()
    root = math.sqrt(count)
    size, variance = length / root, (length / root) ** 2 - mean * mean
    if not (math.isfinite(length) and math.isfinite(far)) or variance * most_squared <= size * size:
        return None
    return Facts(count, mean, size, math.sqrt(variance), count, far / root, worst)


def _facts(value: torch.Tensor, oracle: torch.Tensor) -> Facts:
    """Whatever the content: computed on the device, read once."""
    known = oracle.isfinite()
    same = (value == oracle) | (value.isnan() & oracle.isnan())
    difference = torch.where(same, 0.0, value - oracle)
    count = known.sum()
    mean = torch.where(known, oracle, 0.0).sum() / count
    size = (torch.where(known, oracle, 0.0).square().sum() / count).sqrt()
    spread = (torch.where(known, oracle - mean, 0.0).square().sum() / count).sqrt()
    found = torch.stack([count, mean, size, spread, difference.square().mean().sqrt(), difference.abs().max()])
    counted, middle, length, width, far, worst = found.tolist()
    return Facts(counted, middle, length, width, oracle.numel(), far, worst)


def _joined(parts: list[Facts]) -> tuple[float, float, float, float]:
    """RMS, spread, RMS and largest difference of what consists of these parts.

    Chan et al., Updating formulae and a pairwise algorithm for computing sample variances, 1979.
    """
    if len(parts) == 1:
        (one,) = parts
        return one.size, one.spread, one.far, one.worst
    known = [part for part in parts if part.count]
    count, elements = sum(part.count for part in known), sum(part.elements for part in parts)
    far = math.sqrt(sum(part.elements / elements * part.far * part.far for part in parts))
    worst = max(parts, key=lambda part: math.inf if math.isnan(part.worst) else part.worst).worst
    if not count:
        return math.nan, math.nan, far, worst
    mean = sum(part.count / count * part.mean for part in known)
    size, spread = 0.0, 0.0
    for part in known:  # products, not powers: those raise where a float overflows
        apart = part.mean - mean
        size += part.count / count * part.size * part.size
        spread += part.count / count * (part.spread * part.spread + apart * apart)
    return math.sqrt(size), math.sqrt(spread), far, worst


def _over_spread(size: float, scale: float, far: float, worst: float) -> Errors:
    if not math.isfinite(size):  # nothing is finite, or too large to square
        size = scale = 0.0
    if scale <= FLAT * size:  # constant, or one element: no spread to measure by
        scale = size
    if scale == 0:
        return Errors(0.0, 0.0) if worst == 0 else Errors(math.inf, math.inf)
    return Errors(far / scale, worst / scale)


def _quickly(value: torch.Tensor, exact: torch.Tensor) -> Errors | None:
    """`errors` in fp32, with a third of the work; None unless all is finite and fp32 wide enough for it."""
    if value.dtype not in NARROW or exact.dtype not in NARROW or exact.numel() == 0:
        return None
    found: list[Facts] = []
    for left, right in in_parts(value, exact):
        facts = _finite_facts(left.float(), right.float(), MOST_SQUARED_32)
        if facts is None or not 1e-12 < facts.size < 1e12:
            return None
        found.append(facts)
    return _over_spread(*_joined(found))


@dataclass(frozen=True)
class Allowed:
    """Largest errors that still count as right."""

    rms: float
    largest: float

    def holds(self, found: Errors) -> bool:
        return found.finite and found.rms <= self.rms and found.largest <= self.largest

    def widened(self, other: Errors, room: float) -> Allowed:
        """Limits that also hold `room` times `other`; the same ones where that says nothing."""
        if not other.finite:
            return self
        return Allowed(max(self.rms, room * other.rms), max(self.largest, room * other.largest))

    def accepts(self, value: torch.Tensor, exact: torch.Tensor, gain: float = 1.0) -> bool:
        """Whether `value` may stand for `exact`, with `gain` times the error; integers if hardly any differ.

        Those that do are looked at in the rounds; here it is asked whether the work was done.
        """
        if not value.is_floating_point() and not value.is_complex():
            return all_equal(value, exact) or few_differ(value, exact)
        limit = Allowed(gain * self.rms, gain * self.largest)
        quick = _quickly(value, exact)
        return (quick is not None and limit.holds(quick)) or limit.holds(errors(value, exact))


def few_differ(value: torch.Tensor, exact: torch.Tensor) -> bool:
    """Whether no more of an integer output differs than rounding may decide: nothing of a small one."""
    if value.shape != exact.shape or value.dtype != exact.dtype:
        return False
    differing = sum(int((left != right).sum()) for left, right in in_parts(value, exact))
    return bool(differing <= ROUNDED_SHARE * exact.numel())


def reach(oracle: torch.Tensor) -> float:
    """Size of the oracle's largest element over its spread: what a relative error of one is, as `Errors.largest`."""
    found = errors(oracle.new_zeros(()), oracle)
    return found.largest if found.finite else 0.0


def allowed(
    reference: Errors,
    low: Errors | None,
    dtype: torch.dtype,
    length: int,
    count: int = MANY,
    *,
    outlier: float = 0.0,
    order: float = 1.0,
    one_sign: float = 0.0,
) -> Allowed:
    """`max(k * e_ref, min(32 u sqrt(L), e_low / 4))`, and likewise for the largest error with k = 8 and 128 u.

    Content that amplifies roundings of its inputs by more than 32, which `low` tells beside the coarser format's own
    roundoff, amplifies those of sums as much: `order` times that factor takes the place of 32 then. Without products
    that is ORDER. Terms of one sign that are added one by one, as atomics do, lose 0.6 roundoffs of each partial sum:
    0.26 u sqrt(L) of mean over spread. The coarser format's error says 0.29 for it. One element may always be
    ORDER times as far away: the greatest of many amplified roundings is a matter of luck.

    `reference`: errors of the honest same-dtype reference; `low`: of the reference in a coarser format, None where the
    policy allows that format and for 16-bit problems; `length`: longest reduction. A `low` that is no larger than
    honest rounding bounds nothing: content that happens to fit the coarser format says nothing about precision. L is at
    most LONGEST_CHAIN: by its own length a mean of thirty million numbers might be wrong by a hundredth.
    An output of `count` elements, fewer than MANY, has no mean that evens out: its RMS may come near its largest error.
    Nor does its error tell what was left out: it may be off by FEW_UNITS roundoffs of each addition, times what the
    content amplifies.
    `one_sign`: RMS of the oracle over its spread, where its terms may be of one sign and the coarser format's error
    says less than that, as the roundings of many products even out.
    `outlier` is the oracle's `reach`: an element a thousand spreads away is rounded a thousand times as coarsely, and
    how well the reference happens to meet that one element says nothing. 32 u of it are always allowed.
    """
    roundoff = ROUNDOFF.get(dtype, FP32_ROUNDOFF)
    unit = roundoff * math.sqrt(min(max(1, length), LONGEST_CHAIN))
    coarse_rms = coarse_max = math.inf
    if low is not None and low.finite and low.rms > TELLING_UNITS * roundoff:
        coarse_rms, coarse_max = (
            max(low.rms / 4, LEAST_UNITS * roundoff),
            max(low.largest / 4, 4 * LEAST_UNITS * roundoff),
        )
    known = low is not None and low.finite
    amplified = 0.0
    if low is not None and low.rms <= CHAOS:
        amplified = low.rms / (TF32_ROUNDOFF if roundoff == FP32_ROUNDOFF else FP32_ROUNDOFF)
    chain = ONE_BY_ONE * one_sign
    rms = max(K_RMS * reference.rms, min(max(UNITS_RMS, order * amplified, chain) * unit, coarse_rms))
    largest = max(
        K_MAX * reference.largest,
        min(max(UNITS_MAX, 4 * ORDER * amplified, 4 * chain) * unit, coarse_max),
        UNITS_RMS * roundoff * outlier,
    )
    if count < MANY:
        if known:
            added = FEW_UNITS * max(1.0, amplified) * unit
            largest = min(largest, max(added, 4 * LEAST_UNITS * roundoff, K_MAX * reference.largest))
        largest *= SPARSE
        rms = min(max(rms, largest / math.sqrt(max(1, count))), largest)
    limit = Allowed(rms, largest)
    return limit.widened(reference, ROOM if count >= MANY else FEW_ROOM) if reference.vanish else limit


def kept_bits(found: Errors, low: Errors | None, dtype: torch.dtype) -> float | None:
    """Bits of operands that an error of `found` corresponds to, from what operands of the coarser format make (`low`).

    At most the bits of `dtype`; None where nothing can be compared. Twice the error is one bit less.
    """
    bits = BITS.get(coarse_kind(dtype) or "")
    if bits is None or low is None or not (low.finite and found.finite) or low.rms <= 0:
        return None
    coarse, most = bits
    return min(most, coarse + math.log2(low.rms / found.rms)) if found.rms > 0 else most


def joined(one: Errors, other: Errors | None) -> Errors:
    """The larger of both; `one` where the other says nothing."""
    if other is None or not other.finite:
        return one
    return Errors(max(one.rms, other.rms), max(one.largest, other.largest))


def rounded(value: Any, kind: str) -> Any:
    """`value` (nested) as it would be after a round trip through `kind`: "tf32", CUT, "bfloat16", "float16", "float32".

    CUT drops the digits instead of rounding. Only tensors of more digits are changed, and they keep their dtype.
    """
    return mapped(lambda tensor: _round_trip(tensor, kind), value)


def _round_trip(tensor: torch.Tensor, kind: str) -> torch.Tensor:
    if tensor.is_complex():
        return torch.view_as_complex(_round_trip(torch.view_as_real(tensor.resolve_conj()), kind).contiguous())
    if tensor.dtype != (torch.float64 if kind == "float32" else torch.float32):
        return tensor
    if tensor.numel() > PART:
        out = torch.empty_like(tensor)
        for place, part in in_parts(out, tensor):
            place.copy_(_near_format(part, kind))
        return out
    return _near_format(tensor, kind)


def _near_format(tensor: torch.Tensor, kind: str) -> torch.Tensor:
    if kind not in (TF32, CUT):
        return tensor.to(getattr(torch, kind)).to(tensor.dtype)
    bits = tensor.contiguous().view(torch.int32)
    up = 0 if kind == CUT else 0x0FFF + ((bits >> 13) & 1)  # to nearest, ties to even
    near = (bits + up) & ~0x1FFF  # ten mantissa bits
    return torch.where(tensor.isfinite(), near.view(torch.float32).reshape(tensor.shape), tensor)


def coarse_kind(dtype: torch.dtype) -> str | None:
    """The format just below `dtype` that hardware computes in; None below 16 bits."""
    return {torch.float32: "tf32", torch.complex64: "tf32", torch.float64: "float32", torch.complex128: "float32"}.get(
        dtype
    )
