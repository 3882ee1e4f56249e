"""How a verdict looks: the name of its shape and colour."""

from __future__ import annotations

from judge.values import Verdict

_LOOKS = {
    Verdict.BAD_SOURCE: "compile-error",
    Verdict.LOAD_FAILED: "compile-error",
    Verdict.COMPILE_FAILED: "compile-error",
    Verdict.DISHONEST: "suspect",
    Verdict.SUSPECT: "suspect",
    Verdict.UNSUPPORTED: "suspect",
    Verdict.COMPILED_ONLY: "suspect",
    Verdict.CANCELLED: "cancelled",
}


def verdict_look(verdict: str, speedup: float | None) -> str:
    """correct, slower, compile-error, suspect, cancelled or wrong; "wrong" also for none."""
    if verdict == Verdict.PASS:
        return "slower" if speedup is not None and speedup < 1 else "correct"
    return _LOOKS.get(Verdict(verdict), "wrong") if verdict else "wrong"
