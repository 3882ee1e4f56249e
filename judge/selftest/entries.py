"""Entries of the self-test: what each header promises, read from the corpora.

Standard library only. The files of the corpora are read as text; nothing here imports them.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import Any

from judge.values import (
    DEFAULT_POLICY,
    AdmissionReport,
    Finding,
    Limits,
    Outcome,
    Policy,
    ProblemSpec,
    SealedCase,
    SpeedCall,
    Verdict,
)

BENCHES = frozenset({"interpreter", "cpu", "cuda"})
GAINLESS = "!faster"
LIMITS = Limits(wall_s=60.0, stage_s=20.0)
ADMISSIONS = frozenset({"admitted", "degenerate", "refused"})


class Corpus(StrEnum):
    EXPLOIT = "exploit"  # must be rejected, or labelled, for the right reason
    HONEST = "honest"  # must pass
    MUTATION = "mutation"  # a bug planted in an honest kernel: must be found
    AA = "aa"  # a kernel against itself: must not be called faster


@dataclass(frozen=True)
class Expected:
    """One acceptable ending: a verdict (or an admission state), a prefix of its reason, codes of its findings.

    Empty `reasons` accept any reason. Each of `findings` must be a prefix of the code of at least one finding.
    """

    verdict: str
    reasons: tuple[str, ...] = ()
    findings: tuple[str, ...] = ()
    gainless: bool = False  # and not called faster than eager

    def __post_init__(self) -> None:
        if self.verdict not in ADMISSIONS and self.verdict not in set(Verdict):
            raise ValueError(f"{self.verdict!r} is neither a verdict nor the state of an admission")

    def matches(self, verdict: str, reason: str, findings: tuple[Finding, ...] = (), *, faster: bool = False) -> bool:
        """Whether an ending is this one; `faster`: it was called faster than eager."""
        codes = [finding.code for finding in findings]
        return (
            verdict == self.verdict
            and not (self.gainless and faster)
            and (not self.reasons or reason.startswith(self.reasons))
            and all(any(code.startswith(wanted) for code in codes) for wanted in self.findings)
        )

    def __str__(self) -> str:
        words = [self.verdict, *(f"{reason}*" if reason.endswith(".") else reason for reason in self.reasons)]
        gainless = [GAINLESS] if self.gainless else []
        return " ".join([*words, *(f"+{code}" for code in self.findings), *gainless])


@dataclass(frozen=True)
class Entry:
    """One thing to judge. `expected` maps a kind of bench to the acceptable endings; "" is for every other kind."""

    corpus: Corpus
    id: str  # its file's name: "e03_late_thread"
    title: str
    problem: ProblemSpec = field(repr=False)
    candidate: str = field(repr=False)
    benches: frozenset[str]  # kinds of bench it can run on
    expected: Mapping[str, tuple[Expected, ...]]
    number: int | None = None  # in the catalogue of exploits
    admits: bool = False  # the problem alone is examined; the candidate is what a cheat would send
    incumbent: str | None = field(default=None, repr=False)
    comparisons: int = 1  # A/A: how often it meets its twin
    size: str = ""  # A/A: which class of calls it speaks for: "5 us", "launch-bound"
    repeat: int = 1  # evaluations in a row on one bench; the last one counts
    timing: bool = True
    audit: bool = True  # judged as if it were to become the best
    quick: bool = False  # part of the short run
    limits: Limits = LIMITS

    def __post_init__(self) -> None:
        if not self.benches or not self.benches <= BENCHES:
            raise ValueError(f"{self.id}: devices are some of {', '.join(sorted(BENCHES))}")
        if not self.expected or not all(self.expected.values()) or not set(self.expected) <= BENCHES | {""}:
            raise ValueError(f"{self.id}: says not what is expected, or of an unknown kind of device")
        if min(self.comparisons, self.repeat) < 1:
            raise ValueError(f"{self.id}: comparisons and repeat count from one")

    def endings(self, bench: str) -> tuple[Expected, ...]:
        """Acceptable endings on a kind of bench."""
        return self.expected.get(bench) or self.expected[""]

    def fits(self, bench: str, ended: Outcome | AdmissionReport) -> bool:
        """Whether this is what must happen."""
        if isinstance(ended, AdmissionReport):
            return any(one.matches(ended.state, ended.reason) for one in self.endings(bench))
        faster = ended.speedup is not None and ended.speedup.call is SpeedCall.FASTER
        return any(
            one.matches(ended.verdict, ended.reason, ended.findings, faster=faster) for one in self.endings(bench)
        )


KEYS = frozenset(
    {
        "title", "exploit", "problem", "case", "policy", "sealed", "devices", "expect", "base", "replace", "admit",
        "incumbent", "comparisons", "size", "repeat", "timing", "audit", "quick", "limits", "pad",
    }
)  # fmt: skip
REPEATED = frozenset({"sealed", "replace"})
_LINE = re.compile(r"# ([a-z]+)(?: ([a-z]+))?: (.+)")


class BadEntry(ValueError):
    """A corpus file that says nothing usable; the text names the file, the line and what to change."""


@dataclass(frozen=True)
class Header:
    """Parsed keys. `expected` by kind of bench, "" for all others."""

    values: dict[str, str]
    lists: dict[str, tuple[str, ...]]
    expected: dict[str, tuple[Expected, ...]]
    lines: int  # how long the comment block is

    def flag(self, key: str, default: bool) -> bool:
        """Value of a yes/no key. Raises BadEntry."""
        text = self.values.get(key)
        if text not in (None, "yes", "no"):
            raise BadEntry(f"{key}: {text!r} is neither yes nor no")
        return default if text is None else text == "yes"

    def count(self, key: str, default: int | None = None) -> int | None:
        """Value of a whole number key. Raises BadEntry."""
        text = self.values.get(key)
        if text is None:
            return default
        if not text.isdigit():
            raise BadEntry(f"{key}: {text!r} is no whole number")
        return int(text)


def parse_header(text: str) -> Header:
    """Read the comment block. Raises BadEntry for an unknown or repeated key and for an ending that does not parse."""
    values: dict[str, str] = {}
    lists: dict[str, list[str]] = {key: [] for key in REPEATED}
    expected: dict[str, tuple[Expected, ...]] = {}
    block = _block(text)
    for number, line in enumerate(block, start=1):
        if line == "#":
            break
        match = _LINE.fullmatch(line)
        if match is None or match[1] not in KEYS or (match[2] and match[1] != "expect"):
            raise BadEntry(f"line {number}: {line!r} is no key of a header; prose comes after an empty '#'")
        key, kind, value = match[1], match[2] or "", match[3].strip()
        if key in REPEATED:
            lists[key].append(value)
        elif (key in values and key != "expect") or (key == "expect" and kind in expected):
            raise BadEntry(f"line {number}: {key} is there twice")
        elif key == "expect":
            expected[kind] = endings(value)
        else:
            values[key] = value
    return Header(values, {key: tuple(rows) for key, rows in lists.items()}, expected, len(block))


def endings(text: str) -> tuple[Expected, ...]:
    """Endings divided by `|`. Raises BadEntry for an unknown verdict."""
    found = []
    for part in text.split("|"):
        words = part.split()
        if not words:
            raise BadEntry(f"expect: an empty ending in {text!r}")
        try:
            found.append(
                Expected(
                    words[0],
                    tuple(word for word in words[1:] if word != GAINLESS and not word.startswith("+")),
                    tuple(word[1:] for word in words[1:] if word.startswith("+")),
                    GAINLESS in words[1:],
                )
            )
        except ValueError as error:
            raise BadEntry(f"expect: {error}") from error
    return tuple(found)


def _block(text: str) -> list[str]:
    lines = []
    for line in text.splitlines():
        if not line.startswith("#"):
            break
        lines.append(line.rstrip())
    return lines


HERE = Path(__file__).parent
FOLDERS = {Corpus.EXPLOIT: "exploits", Corpus.HONEST: "honest", Corpus.MUTATION: "mutations", Corpus.AA: "aa"}
SHARED = ("problem", "case", "policy", "devices", "limits")  # what an entry with `base` takes from it unless it says


@cache
def entries(folder: Path = HERE) -> tuple[Entry, ...]:
    """Every entry, by corpus and file name. Raises BadEntry that names the file."""
    found = tuple(
        read_entry(path, corpus, folder)
        for corpus in Corpus
        for path in sorted((folder / FOLDERS[corpus]).glob("*.py"))
    )
    names = [entry.id for entry in found]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise BadEntry(f"two entries are called {', '.join(twice)}")
    return found


def chosen(
    found: tuple[Entry, ...],
    *,
    corpora: frozenset[Corpus] = frozenset(),
    ids: tuple[str, ...] = (),
    quick: bool = False,
) -> tuple[Entry, ...]:
    """The entries asked for; an id may be a prefix. Raises BadEntry for an id that nothing has."""
    for wanted in ids:
        if not any(entry.id.startswith(wanted) for entry in found):
            raise BadEntry(f"there is no entry {wanted!r}")
    return tuple(
        entry
        for entry in found
        if (not corpora or entry.corpus in corpora)
        and (not ids or entry.id.startswith(ids))
        and (not quick or entry.quick)
    )


def compared(found: tuple[Entry, ...], least: int) -> tuple[Entry, ...]:
    """The entries of A/A classes with `least` comparisons for each class, in equal parts; others as they are."""
    members = Counter(entry.size for entry in found if entry.size)
    return tuple(
        replace(entry, comparisons=-(-least // members[entry.size])) if entry.size else entry for entry in found
    )


def read_entry(path: Path, corpus: Corpus, folder: Path = HERE) -> Entry:
    """One corpus file. Raises BadEntry that names it."""
    try:
        return _entry(path, corpus, folder)
    except (BadEntry, ValueError, TypeError, OSError) as error:
        raise BadEntry(f"{path.parent.name}/{path.name}: {error}") from error


def _entry(path: Path, corpus: Corpus, folder: Path) -> Entry:
    source, header = _with_base(path, folder)
    if "title" not in header.values or "problem" not in header.values:
        raise BadEntry("a header needs a title and a problem")
    return Entry(
        corpus=corpus,
        id=path.stem,
        title=header.values["title"],
        problem=_problem(header, folder),
        candidate=_padded(source, header.count("pad", 0) or 0),
        benches=frozenset(header.values.get("devices", "interpreter cuda").split()),
        expected=header.expected,
        number=header.count("exploit"),
        admits=header.flag("admit", False),
        incumbent=source if header.values.get("incumbent") == "self" else None,
        comparisons=header.count("comparisons", 1) or 0,
        size=header.values.get("size", ""),
        repeat=header.count("repeat", 1) or 0,
        timing=header.flag("timing", True),
        audit=header.flag("audit", True),
        quick=header.flag("quick", False),
        limits=_limits(header),
    )


def _with_base(path: Path, folder: Path) -> tuple[str, Header]:
    """Source and header; with `base: honest/name`, that file's source with this one's replacements."""
    text = path.read_text(encoding="utf-8")
    header = parse_header(text)
    base = header.values.get("base")
    if base is None:
        return text, header
    if len(text.splitlines()) > header.lines:
        raise BadEntry("with a base there is only a header; changes are `# replace: OLD => NEW`")
    source, inherited = _with_base(folder / f"{base}.py", folder)
    for change in header.lists["replace"]:
        source = _replaced(source, change)
    taken = {key: inherited.values[key] for key in SHARED if key in inherited.values}
    lists = {**header.lists, "sealed": header.lists["sealed"] or inherited.lists["sealed"]}
    return source, Header({**taken, **header.values}, lists, header.expected or inherited.expected, header.lines)


def _replaced(source: str, change: str) -> str:
    old, arrow, new = change.partition(" =>")
    old, new = old.replace("\\n", "\n"), new.removeprefix(" ").replace("\\n", "\n")
    if not arrow or source.count(old) != 1:
        raise BadEntry(f"replace: {old!r} must be in the base exactly once, it is there {source.count(old)} times")
    return source.replace(old, new)


def _padded(source: str, size: int) -> str:
    """`pad: 140000`: the source with comments up to that many bytes, so that no file here has to be so large."""
    line = "# " + "a long source is a source like any other " * 2 + "\n"
    missing = size - len(source.encode())
    return source + line * -(-missing // len(line)) if missing > 0 else source


def _problem(header: Header, folder: Path) -> ProblemSpec:
    name = header.values["problem"]
    place = folder.parent / f"{name}.py" if name.startswith("samples/") else folder / "problems" / f"{name}.py"
    policy = header.values.get("policy")
    sealed = (text.partition(" ") for text in header.lists["sealed"])  # `name {"ROWS": 17}`
    return ProblemSpec(
        place.read_text(encoding="utf-8"),
        header.values.get("case"),
        Policy.from_json(json.loads(policy)) if policy else DEFAULT_POLICY,
        tuple(SealedCase(name, json.loads(constants)) for name, _, constants in sealed),
    )


def _limits(header: Header) -> Limits:
    """`limits: wall_s=20 stage_s=5`"""
    fields: dict[str, Any] = {"wall_s": 60.0, "stage_s": 20.0}
    for part in header.values.get("limits", "").split():
        name, _, value = part.partition("=")
        fields[name] = int(value) if name.endswith(("_mb", "_bytes")) else float(value)
    return Limits(**fields)
