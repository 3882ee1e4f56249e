"""One answer against what was expected: structure, aliases, values. Only bytes count, and only our own code looks."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch

from judge.bench.exchange.claims import Forwarded, Output
from judge.bench.exchange.nested import shape_of
from judge.bench.exchange.parts import all_equal, in_parts
from judge.bench.exchange.poison import poisoned
from judge.bench.judging.completion import Ended
from judge.bench.judging.expected import Expected, Target
from judge.bench.judging.precision import Errors
from judge.values import Verdict

STAGE = "correctness"


@dataclass(frozen=True)
class Fault:
    """What is wrong with one tensor. `found` is None where no error could be computed."""

    reason: str
    text: str
    verdict: Verdict = Verdict.WRONG
    found: Errors | None = None


def check_structure(reply: Forwarded, expected: Expected, stage: str) -> None:
    """Nesting, exact types, shapes and dtypes must be the reference's. Raises Ended."""
    if reply.refused:
        reason = "structure.no_gradient" if reply.underived else "structure.type"
        raise Ended(Verdict.WRONG_STRUCTURE, stage, reason, reply.refused)
    if not alike(reply.template, expected.template, expected.exact_template, expected.scalar_slack):
        text = f"the output is nested as {shape_of(reply.template)}, the reference as {shape_of(expected.template)}"
        raise Ended(Verdict.WRONG_STRUCTURE, stage, "structure.nesting", text[:2000])
    for number, (got, wanted) in enumerate(zip(reply.metas, expected.metas, strict=True)):
        if got.shape != wanted.shape:
            text = f"{expected.title(number)} has shape {list(got.shape)}, the reference's has {list(wanted.shape)}"
            raise Ended(Verdict.WRONG_STRUCTURE, stage, "structure.shape", text)
        if got.dtype != wanted.dtype:
            text = f"{expected.title(number)} has dtype {got.dtype}, the reference's has {wanted.dtype}"
            raise Ended(Verdict.WRONG_STRUCTURE, stage, "structure.dtype", text)
    if not reply.stored:
        raise Ended(Verdict.DISHONEST, stage, "tamper.channel", "the output was described but not handed over")


def alike(got: Any, wanted: Any, exact: Any, slack: float) -> bool:
    """Whether two templates say the same; a float may be off by `slack`, or eight times the reference's own error."""
    if got == wanted:
        return True
    if type(got) is not dict or type(wanted) is not dict or got.keys() != wanted.keys() or len(got) != 1:
        return False
    ((tag, body),) = wanted.items()
    mine, right = got[tag], exact.get(tag) if type(exact) is dict else None
    if tag == "v" and type(body) is float:
        centre = right if type(right) is float else body
        return type(mine) is float and abs(mine - centre) <= max(8 * abs(body - centre), slack * abs(centre))
    if tag in ("list", "tuple", "dict"):
        if not isinstance(mine, list) or len(mine) != len(body):
            return False
        exacts = right if isinstance(right, list) and len(right) == len(body) else body
        if tag != "dict":
            return all(alike(*row, slack) for row in zip(mine, body, exacts, strict=True))
        return all(
            key == other and alike(value, wanted_value, exact_value, slack)
            for (key, value), (other, wanted_value), (_, exact_value) in zip(mine, body, exacts, strict=True)
        )
    return False


def check_aliases(reply: Forwarded, expected: Expected) -> None:
    """An output may lie in an input's memory only where the reference's does. Raises Ended."""
    for pair in reply.aliases:
        if list(pair) not in expected.aliases and pair not in expected.shared:
            raise Ended(
                Verdict.STATE_VIOLATION,
                STAGE,
                "state.alias",
                f"{expected.title(pair[0])} lies in the memory of input {pair[1]}, which the reference's does not; "
                "return a new tensor",
            )


def check_accumulated(reply: Forwarded) -> None:
    """A call may not leave gradients in the `grad` of its inputs and parameters. Raises Ended."""
    if reply.accumulated:
        raise Ended(
            Verdict.STATE_VIOLATION,
            STAGE,
            "state.grad",
            "forward or backward left something in the `grad` of an input or a parameter; return gradients from "
            "torch.autograd.Function.backward, and call no .backward()",
        )


def check_kept(reply: Output, kept: set[int], stage: str) -> None:
    """An output may lie in memory that the model keeps only where the reference's does (`kept`). Raises Ended."""
    for number in reply.kept:
        if number not in kept:
            raise Ended(
                Verdict.STATE_VIOLATION,
                stage,
                "state.kept_output",
                f"output {number} lies in memory that the model keeps (a parameter, a buffer, or an earlier output) "
                "and would change in its caller's hands; return a new tensor",
            )


def fault_of(target: Target, value: torch.Tensor) -> Fault | None:
    """What is wrong with `value`; None when it is right."""
    return compared(target, value)[0]


def compared(target: Target, value: torch.Tensor) -> tuple[Fault | None, float]:
    """What is wrong with `value`, None when it is right; and its RMS error (0 for integers, which are right or wrong).

    Only a wrong value is looked at twice.
    """
    if target.integer:
        return _integer_fault(target, value), 0.0
    found = target.errors(value)
    return (None if target.allowed.holds(found) else _floating_fault(target, value, found)), found.rms


def _floating_fault(target: Target, value: torch.Tensor, found: Errors) -> Fault:
    pairs = list(in_parts(value, target.oracle))
    unwritten = sum(int((poisoned(one) & ~exact.isnan()).sum()) for one, exact in pairs)
    if unwritten:
        return Fault("value.partial", f"{unwritten} of {value.numel()} elements were never written")
    oracle, plain = _real(target.oracle), _real(value)
    stray = sum(int((~one.isfinite() & exact.isfinite()).sum()) for one, exact in in_parts(plain, oracle))
    if stray:
        text = f"{stray} of {plain.numel()} elements are NaN or infinite where the oracle is not"
        return Fault("value.nonfinite", text, Verdict.NOT_FINITE)
    text = (
        f"RMS error {found.rms:.3g} of the output's spread (allowed {target.allowed.rms:.3g}), "
        f"largest {found.largest:.3g} (allowed {target.allowed.largest:.3g}); {where(plain, oracle)}"
    )
    return Fault("value.mismatch", text, found=found)


def _integer_fault(target: Target, value: torch.Tensor) -> Fault | None:
    if all_equal(value, target.same):
        return None
    wrong = ~target.agrees(value)
    count = int(wrong.sum())
    if not count:
        return None
    kind = str(value.dtype)[6:]
    masked = torch.where(wrong, value, target.same)
    return Fault("value.mismatch", f"{count} of {value.numel()} {kind} elements differ; {where(masked, target.same)}")


def _real(tensor: torch.Tensor) -> torch.Tensor:
    return torch.view_as_real(tensor.resolve_conj()) if tensor.is_complex() else tensor


def where(value: torch.Tensor, exact: torch.Tensor) -> str:
    """The worst element, as an index a person can look up."""
    flat = _farthest(value, exact)
    index = [int(i) for i in torch.unravel_index(torch.tensor(flat), value.shape)] if value.dim() else []
    got, wanted = value.reshape(-1)[flat].item(), exact.reshape(-1)[flat].item()
    return f"worst at {index}: got {got:.6g}, oracle {wanted:.6g}"


def _farthest(value: torch.Tensor, exact: torch.Tensor) -> int:
    """Place of the worst element among all of them in order."""
    places = torch.arange(value.numel(), device="meta").reshape(value.shape)
    worst, at = -1.0, 0
    for one, other, place in in_parts(value, exact, places):
        difference = (one.double() - other.double()).abs().nan_to_num(math.inf).reshape(-1)
        local = int(difference.argmax())
        if (found := float(difference[local])) > worst:
            worst, at = found, _flat(place, local)
    return at


def _flat(part: torch.Tensor, local: int) -> int:
    """Number in the whole, which is contiguous, of element `local` of a view of it."""
    index = torch.unravel_index(torch.tensor(local), part.shape) if part.dim() else ()
    return int(part.storage_offset() + sum(int(i) * step for i, step in zip(index, part.stride(), strict=True)))
