"""Finds the corpora beside this file and reads them into entries. Text only: no corpus file is ever imported here."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from judge.selftest.entries import Corpus, Entry
from judge.selftest.headers import BadEntry, Header, parse_header
from judge.values import DEFAULT_POLICY, Limits, Policy, ProblemSpec, SealedCase

HERE = Path(__file__).parent
FOLDERS = {Corpus.EXPLOIT: "exploits", Corpus.HONEST: "honest", Corpus.MUTATION: "mutations", Corpus.AA: "aa"}
SHARED = ("problem", "case", "policy", "devices", "limits")  # what an entry with `base` takes from it unless it says


@cache
def entries(folder: Path = HERE) -> tuple[Entry, ...]:
    """Every entry, by corpus and file name. Raises BadEntry that names the file."""
    found = tuple(entry for corpus in Corpus for entry in _of_folder(folder, corpus))
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


def read_entry(path: Path, corpus: Corpus, folder: Path = HERE) -> Entry:
    """One corpus file. Raises BadEntry that names it."""
    try:
        return _entry(path, corpus, folder)
    except (BadEntry, ValueError, TypeError, OSError) as error:
        raise BadEntry(f"{path.parent.name}/{path.name}: {error}") from error


def _of_folder(folder: Path, corpus: Corpus) -> Iterator[Entry]:
    for path in sorted((folder / FOLDERS[corpus]).glob("*.py")):
        yield read_entry(path, corpus, folder)


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
    sealed = tuple(_sealed(text) for text in header.lists["sealed"])
    return ProblemSpec(
        place.read_text(encoding="utf-8"),
        header.values.get("case"),
        Policy.from_json(json.loads(policy)) if policy else DEFAULT_POLICY,
        sealed,
    )


def _sealed(text: str) -> SealedCase:
    """`name {"ROWS": 17}`"""
    name, _, constants = text.partition(" ")
    return SealedCase(name, json.loads(constants))


def _limits(header: Header) -> Limits:
    """`limits: wall_s=20 stage_s=5`"""
    fields: dict[str, Any] = {"wall_s": 60.0, "stage_s": 20.0}
    for part in header.values.get("limits", "").split():
        name, _, value = part.partition("=")
        fields[name] = int(value) if name.endswith(("_mb", "_bytes")) else float(value)
    return Limits(**fields)
