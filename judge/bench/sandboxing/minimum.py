"""Which sandbox layers must be active before anything uploaded runs: JUDGE_MIN_SANDBOX. Standard library only."""

from __future__ import annotations

from judge.bench.sandboxing import landlock, seccomp

AUTO = "auto"
LAYERS = (
    "landlock", "seccomp", "namespaces", "files", "rlimits", "memory_limit", "process_limit", "no_new_privs",
    "capabilities",
)  # fmt: skip
ALWAYS = frozenset({"rlimits", "no_new_privs"})  # every kernel that runs torch has these
STRONG = ("landlock", "seccomp")  # without them uploaded code acts as this account


def required_layers(text: str) -> frozenset[str]:
    """The layers that `text` asks for: names separated by commas, or "auto": the strong ones this machine has.

    Raises ValueError that names what is unknown.
    """
    names = [part.strip() for part in text.split(",") if part.strip()]
    unknown = sorted(set(names) - {AUTO, *LAYERS})
    if unknown:
        raise ValueError(f"unknown sandbox layers: {', '.join(unknown)}; known are {AUTO}, {', '.join(LAYERS)}")
    found = frozenset(name for name in names if name != AUTO)
    return found | ALWAYS | frozenset(available_strong()) if AUTO in names else found


def available_strong() -> tuple[str, ...]:
    """The strong layers that this kernel and machine offer."""
    offers = {"landlock": landlock.abi() > 0, "seccomp": seccomp.available()}
    return tuple(name for name in STRONG if offers[name])


def gaps() -> tuple[str, ...]:
    """The strong layers that this machine lacks."""
    return tuple(name for name in STRONG if name not in available_strong())
