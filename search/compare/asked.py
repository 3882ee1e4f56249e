"""Which kernels a query asks for: `k=<search>.<node>`, two to four of them, and `base`, one of these."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

MOST = 4
NAME_CHARS = 40
KEY = re.compile(r"([0-9]{1,12})\.([0-9]{1,9})")
HOW = "Use search.node, such as 12.3."


@dataclass(frozen=True, order=True)
class Key:
    """One kernel: search and node number."""

    run_id: int
    number: int

    def __str__(self) -> str:
        return f"{self.run_id}.{self.number}"


@dataclass(frozen=True)
class Asked:
    """The kernels in their order, each once, the baseline among them, and what could not be understood."""

    keys: tuple[Key, ...] = ()
    base: Key | None = None
    errors: tuple[str, ...] = ()


def key_of(word: str) -> Key | None:
    """`12.3` as a key; None for anything else."""
    found = KEY.fullmatch(word.strip())
    return Key(int(found[1]), int(found[2])) if found else None


def asked_of(words: Sequence[str], base: str = "") -> Asked:
    """What the parameters mean. `base` is a key among them; without one the first is the baseline."""
    given = [part for word in words[:50] for part in re.split(r"[\s,]+", word) if part]
    errors = [f"{word[:40]!r} is not a kernel. {HOW}" for word in given if key_of(word) is None]
    keys = list(dict.fromkeys(key for word in given if (key := key_of(word)) is not None))
    if len(keys) > MOST:
        errors.append(f"{len(keys)} kernels were given; the first {MOST} are shown.")
    wanted = key_of(base)
    if base and wanted not in keys[:MOST]:
        errors.append(f"The baseline {base[:40]!r} is none of these kernels; the first one is used instead.")
        wanted = None
    return Asked(tuple(keys[:MOST]), wanted or (keys[0] if keys else None), tuple(errors[:6]))


def names_of(query: Mapping[str, str], keys: Iterable[Key]) -> dict[Key, str]:
    """What the reader calls the kernels: `name-12.3=with tiles`, kept in the address."""
    given = {key: " ".join(query.get(f"name-{key}", "").split())[:NAME_CHARS] for key in keys}
    return {key: name for key, name in given.items() if name}


def without_missing(asked: Asked, known: Iterable[Key]) -> Asked:
    """The same with what does not exist left out, and said."""
    found = set(known)
    missing = [f"There is no node {key.number} in a search {key.run_id}." for key in asked.keys if key not in found]
    keys = tuple(key for key in asked.keys if key in found)
    base = asked.base if asked.base in found else (keys[0] if keys else None)
    return Asked(keys, base, (*asked.errors, *missing))


def swapped(asked: Asked) -> Asked:
    """The baseline and the kernel after it change places; the baseline's place stays the baseline's."""
    if asked.base is None or len(asked.keys) < 2:
        return asked
    keys = list(asked.keys)
    here = keys.index(asked.base)
    there = (here + 1) % len(keys)
    keys[here], keys[there] = keys[there], keys[here]
    return Asked(tuple(keys), keys[here], ())
