"""Runs one operator on small tensors of several ranks, and says what it does: shapes, and what to beware of."""

from __future__ import annotations

import hashlib
import math
from typing import Any

import torch

from judge.bench.operators.choices import filled, variants
from judge.bench.operators.listing import Candidate
from judge.bench.operators.shapes import BASE, NEWS, NoRule, Shape, rules

NUDGE = 1e-3
JUMP = 0.05  # a change of the output beyond this for a nudge of the input: a kernel that rounds otherwise would fail
FAR = 100.0  # inputs so large that what grows without measure is infinite
BOUND = 10.0  # of a result that stays near zero there
WIDE = 6.0  # also what is cut off far from zero shows
MOST_FORMS = 2  # variants kept of one rank
MANY = (128, 128)  # so many numbers that a jump is seen


def without_aliases(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Of those that give the very same numbers the first keeps its forms: the others are other names for it."""
    seen: dict[str, str] = {}
    found = []
    for row in rows:
        first = seen.setdefault(row.pop("output", "") or row["name"], row["name"])
        other = {**row, "forms": [], "why_not": f"another name for {first}"}
        found.append(row if first == row["name"] or not row["forms"] else other)
    return found


def tried(candidate: Candidate) -> dict[str, Any]:
    """The operator as JSON: name, category, kind, `forms` (how it may be used), or `why_not` where there is none.

    `output` is a hash of the numbers that the first form gives, for `without_aliases`.
    """
    forms: list[dict[str, Any]] = []
    why = "an argument is needed that nothing here has a value for"
    for rank in BASE:
        kept = 0
        for arguments in _arguments(candidate):
            if kept == MOST_FORMS:
                break
            try:
                forms.append(_form(candidate, arguments, rank))
                kept += 1
            except NoRule as error:
                why = str(error)
    row = {"name": candidate.name, "category": candidate.category, "kind": candidate.kind, "forms": forms}
    return {**row, "output": _output(candidate, forms[0])} if forms else {**row, "why_not": why[:160]}


def _output(candidate: Candidate, form: dict[str, Any]) -> str:
    out = _run(candidate, form["arguments"], WIDE * _drawn(BASE[form["rank"]])).contiguous()
    return hashlib.sha256(str(out.shape).encode() + out.numpy().tobytes()).hexdigest()


def _arguments(candidate: Candidate) -> list[dict[str, Any]]:
    if candidate.kind == "reduction":
        return [{"dim": -1}, {"dim": 1}]
    return variants(candidate.parameters) if candidate.kind == "layer" else [{}]


def _form(candidate: Candidate, arguments: dict[str, Any], rank: int) -> dict[str, Any]:
    def shape_of(shape: Shape, new: int) -> Shape:
        return tuple(_run(candidate, arguments, _drawn(shape), new).shape)

    by_element = candidate.kind in ("unary", "binary")
    if by_element:
        _check_by_element(candidate, arguments, _drawn(BASE[rank]))
    out, multiples = rules(shape_of, rank)
    shown = (*BASE[rank][:-2], *MANY) if by_element else BASE[rank]
    return {"rank": rank, "arguments": arguments, "out": out, "multiples": multiples} | _traits(
        candidate, arguments, _drawn(shown)
    )


def _check_by_element(candidate: Candidate, arguments: dict[str, Any], x: torch.Tensor) -> None:
    """What moves with its input, and only so, works element by element."""
    out = _run(candidate, arguments, x)
    if out.shape != x.shape:
        raise NoRule("it does not work element by element")
    order = torch.randperm(x.numel(), generator=torch.Generator().manual_seed(3))

    def mixed(one: torch.Tensor) -> torch.Tensor:
        return one.flatten()[order].reshape(one.shape)

    given = (x, _drawn(tuple(x.shape), 2)) if candidate.kind == "binary" else (x,)
    if not torch.allclose(candidate.make(*map(mixed, given)).float(), mixed(out).float(), equal_nan=True):
        raise NoRule("it does not work element by element")


def _drawn(shape: Shape, seed: int = 1) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def _run(candidate: Candidate, arguments: dict[str, Any], x: torch.Tensor, new: int = NEWS[0]) -> torch.Tensor:
    """One run, as in a problem: parameters from a seed, in train mode. Raises NoRule when it cannot."""
    try:
        torch.manual_seed(0)
        given = filled(arguments, tuple(x.shape), new)
        if candidate.kind == "layer":
            out = candidate.make(**given)(x)
        elif candidate.kind == "binary":
            out = candidate.make(x, _drawn(tuple(x.shape), 2))
        else:
            out = candidate.make(x, **given)
    except Exception as error:  # noqa: BLE001 - whatever torch raised says that it does not go
        raise NoRule(str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__) from None
    if not isinstance(out, torch.Tensor):
        raise NoRule("it returns no single tensor")
    return out.detach()


def _traits(candidate: Candidate, arguments: dict[str, Any], x: torch.Tensor) -> dict[str, Any]:
    """What a composer must know. Raises NoRule for what makes no problem."""
    first = _run(candidate, arguments, x)
    if first.dtype != torch.float32:
        raise NoRule(f"it returns {str(first.dtype).removeprefix('torch.')}")
    if not first.isfinite().all():
        raise NoRule("it is not finite on normal numbers")
    _random(candidate, arguments, x, first)
    same = first.shape == x.shape
    if (same and torch.allclose(first, x)) or float(first.max() - first.min()) == 0.0:
        raise NoRule("it changes nothing, or forgets its input")
    nudged = _run(candidate, arguments, x + NUDGE)
    if float((nudged - first).abs().max()) > JUMP:
        raise NoRule("it jumps")
    if candidate.kind != "binary" and torch.equal(nudged, first):
        raise NoRule("it has steps only")
    positive = _run(candidate, arguments, x.abs())
    far = float(_run(candidate, arguments, FAR * x).abs().max())
    return {
        "nonnegative": bool((first >= 0).all()),
        "keeps_positive": bool(same and torch.equal(positive, x.abs())),
        "centred": bool(float(first.mean(-1).abs().max()) < 1e-4),
        "sums_to_one": bool(same and _sums_to_one(first)),
        "overflows": not math.isfinite(far),
        "bounded": far <= BOUND,
    }


def _random(candidate: Candidate, arguments: dict[str, Any], x: torch.Tensor, first: torch.Tensor) -> None:
    """Whether a call draws numbers: the state of the generator then moves after the parameters are there."""
    if candidate.kind == "layer":
        layer = candidate.make(**filled(arguments, tuple(x.shape), NEWS[0]))
        before = torch.get_rng_state()
        layer(x)
        drawn = not torch.equal(before, torch.get_rng_state())
    else:
        before = torch.get_rng_state()
        drawn = not torch.equal(_run(candidate, arguments, x), first) or _moves(candidate, arguments, x)
        torch.set_rng_state(before)
    if drawn:
        raise NoRule("it draws random numbers")


def _moves(candidate: Candidate, arguments: dict[str, Any], x: torch.Tensor) -> bool:
    _run(candidate, arguments, x)
    after = torch.get_rng_state()
    torch.manual_seed(0)
    return not torch.equal(after, torch.get_rng_state())


def _sums_to_one(out: torch.Tensor) -> bool:
    return any(torch.allclose(out.sum(axis), torch.ones(()), atol=1e-4) for axis in range(1, out.dim()))
