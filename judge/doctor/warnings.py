"""What an operator must hear at every start when this machine lacks a strong layer. Starts no probe."""

from __future__ import annotations

from judge.bench.sandboxing.minimum import gaps, required_layers
from judge.doctor.advice import advice_for
from judge.doctor.host import Host, read_host

OPEN = {
    "landlock": "uploaded code is bounded, but could read and write files of this account",
    "seccomp": "uploaded code could reach other processes and kernel interfaces of this account",
}


def warnings(minimum: str, *, missing: tuple[str, ...] | None = None, host: Host | None = None) -> list[str]:
    """Lines about strong layers that are missing; `minimum` is JUDGE_MIN_SANDBOX. Empty on a machine that has both."""
    missing = gaps() if missing is None else missing
    if not missing:
        return []
    host = host or read_host()
    refused = required_layers(minimum)
    lines = []
    for layer in missing:
        what = "nothing uploaded will run, as JUDGE_MIN_SANDBOX asks for it" if layer in refused else OPEN[layer]
        lines.append(f"WARNING: no {layer} on this machine: {what}.")
        lines += [f"  -> {sentence}" for sentence in advice_for(layer, host, cuda=False)]
    if not refused.issuperset(missing):
        lines.append(f"  Upload only what you trust, or insist with JUDGE_MIN_SANDBOX=auto,{','.join(missing)}.")
    return [*lines, "  manage.py judge_doctor tries every layer and explains."]
