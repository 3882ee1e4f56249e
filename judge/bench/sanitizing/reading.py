"""compute-sanitizer's report as values. The tool runs in one process with a candidate, so all of it is a claim:
bounded, and of characters that can be stored. Standard library only."""

from __future__ import annotations

import re
from collections import Counter

from judge.bench.exchange.fields import text_of
from judge.values.sanitizer import MOST_NAMES, Findings

MOST_BYTES = 1 << 20
MOST_LINES, LINE_CHARS = 40, 240
WHOLE = 1_000_000_000
PREFIX = re.compile(r"^=========( |$)")
SUMMARY = re.compile(r"^(?:ERROR SUMMARY: (\d{1,12}) error|RACECHECK SUMMARY: (\d{1,12}) hazard)")
KERNEL = re.compile(r"\bat (?:0x[0-9a-f]+ in .*?:)?([A-Za-z_][\w$.]{0,150})(?:\+0x|\()")
KINDS = (  # how an error begins, and what it is called
    (re.compile(r"^Invalid __(global|shared|local)__ (read|write|atomic)"), r"invalid \1 \2"),
    (re.compile(r"^Uninitialized __(global|shared|local)__ memory read"), r"uninitialized \1 read"),
    (re.compile(r"^(?:Error|Warning): Race reported between"), "race"),
    (re.compile(r"^(?:Error|Warning): Potential (\w{1,10}) hazard"), r"\1 hazard"),
    (re.compile(r"^Barrier error detected"), "barrier error"),
    (re.compile(r"^Program hit (\w{1,60})"), r"call failed: \1"),
)
FAULTS = re.compile(
    r"^(?:Internal Sanitizer Error|Error: (?:Target application terminated|No attachable process|Failed)|Unable to)"
)


def read_report(raw: bytes) -> Findings:
    """What one run of a tool says. Never raises: where there is no summary, `errors` is None."""
    text = raw[:MOST_BYTES].decode("utf-8", "replace")
    kinds: Counter[str] = Counter()
    kernels: Counter[str] = Counter()
    lines: list[str] = []
    errors: int | None = None
    fault, named = "", True  # whether a kernel of the error at hand is known
    for line in text.splitlines():
        if PREFIX.match(line) is None:
            continue
        said = line[10:]
        head = said.rstrip()
        summary = SUMMARY.match(head)
        if summary is not None:
            errors = min(int(next(filter(None, summary.groups()))), WHOLE)
            continue
        fault = fault or (text_of(head, "report", LINE_CHARS) if FAULTS.match(head) else "")
        kind = _kind(head)
        if kind:
            kinds[kind] += 1
            named = False
        kernel = None if named else KERNEL.search(head)
        if kernel is not None:
            kernels[kernel[1]] += 1
            named = True
        if kinds and head and len(lines) < MOST_LINES and "Host Frame" not in head:
            lines.append(text_of(head, "report", LINE_CHARS))
    return Findings(errors, _few(kinds), _few(kernels), tuple(lines), fault)


def _kind(head: str) -> str:
    for pattern, name in KINDS:
        found = pattern.match(head)
        if found is not None:
            return found.expand(name)
    return ""


def _few(counts: Counter[str]) -> dict[str, int]:
    return dict(counts.most_common(MOST_NAMES))
