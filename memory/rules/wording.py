"""When two rules say the same. Names of functions and arguments decide more than the words around them. Pure.

`tl.load` and `triton.language.load` are one name; what differs in a name differs in meaning, however alike the
sentences are: "cannot use tl.any" is not "cannot use tl.all".
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from functools import lru_cache

SAME = 0.75  # share of common words above which two sentences about the same names say the same
SAME_NAMELESS = 0.85  # the same for sentences that name nothing: there only the words can tell
NEAR = 0.5  # weighted share of names and words that makes a near-duplicate, for a person to look at
NAME_WEIGHT = 2.0

# Tried at the beginning of a word only and retried nowhere: time grows with the text alone.
_NAME = re.compile(
    r"[`'\"]([^`'\"\s]{1,60})[`'\"]"  # quoted
    r"|(?<!\w)((?:\w++\.)+\w++)"  # dotted
    r"|(?<!\w)(\w*_\w+)"  # underscored
    r"|(?<!\w)(\w++)(?=\()"  # called
    r"|\b([A-Z]{2,}+\d*+|[a-z]++[A-Z]\w*+|[A-Z]\w*[A-Z]\w*+)\b"  # BLOCK, camelCase, ModelNew
    r"|\b([a-z]++\d++[a-z0-9]*+)\b"  # fp32, conv1d
    r"|\b(\d+(?:\.\d+)?)\b"
    r"|(\*\*|:=|//|\[None\b)"  # operators of the language
)
_ALIASES = {"tl": ("triton", "language"), "F": ("torch", "nn", "functional"), "nn": ("torch", "nn")}
_PREFIXES = frozenset({"triton", "language", "torch", "nn", "functional"})
_WORD = re.compile(r"[a-z]+")
# fmt: off
_STOP = frozenset((
    "a", "an", "the", "of", "to", "in", "on", "at", "by", "for", "with", "from", "as", "is", "are", "be",
    "been", "it", "its", "this", "that", "these", "those", "you", "your", "when", "where", "which", "if",
    "then", "than", "or", "and", "e", "g", "i", "any", "some", "such", "inside", "within", "outside", "into",
    "module", "attribute", "object", "call", "use", "using", "access", "will", "can", "has", "have", "does",
    "kernel", "triton", "torch",
))
# fmt: on
_SIGNS = frozenset({"cannot", "not", "never", "avoid", "do", "alway", "must", "should"})  # say whether, not what
_NEGATIONS = ("cannot", "can't", "not", "don't", "never", "avoid", "without", "no")


@dataclass(frozen=True)
class Wording:
    """A rule's text as sets: `names` (parts of identifiers), `words` (stems), and whether it forbids."""

    names: frozenset[str]
    words: frozenset[str]
    forbids: bool


def normal(text: str) -> str:
    """The text without capitals, aliases, punctuation at the ends of words and superfluous space."""
    lowered = re.sub(r"\btl\.", "triton.language.", " ".join(text.split()).lower())
    return " ".join(word for raw in lowered.split(" ") if (word := raw.strip("`'\".,;:!?")))


def words_hash(text: str) -> str:
    """64 hexadecimal digits, equal for texts that differ only in what `normal` takes away."""
    return hashlib.sha256(normal(text).encode()).hexdigest()


@lru_cache(maxsize=16_384)
def wording(text: str) -> Wording:
    """The text as sets. Cached: the same texts are compared again and again."""
    names: set[str] = set()
    for groups in _NAME.findall(text):
        names.update(_parts(next(group for group in groups if group)))
    rest = _NAME.sub(" ", text).replace("n't", "n not")
    words = {_stem(word) for word in _WORD.findall(rest.lower()) if word not in _STOP}
    first = rest.lower().replace(",", " ").split()[:4]
    forbids = any(word in _NEGATIONS or word == "cannot" for word in first)
    return Wording(frozenset(names), frozenset(words - _SIGNS), forbids)


def _parts(name: str) -> set[str]:
    parts = name.strip("().,:").split(".")
    whole = [piece for part in parts for piece in _ALIASES.get(part, (part,))]
    kept = {piece.lower() for piece in whole if piece and piece not in _PREFIXES}
    return kept if len(whole) > 1 else {piece.lower() for piece in whole if piece}


def _stem(word: str) -> str:
    for ending in ("ing", "ed", "es", "s"):
        if word.endswith(ending) and len(word) - len(ending) >= 4:
            return word.removesuffix(ending)
    return word


def share(a: frozenset[str], b: frozenset[str]) -> float:
    """Common elements over all elements; 1 for two empty sets."""
    return len(a & b) / len(a | b) if a or b else 1.0


def says_same(a: str, b: str) -> float:
    """How surely `b` says what `a` says: 0 when it does not, else the share of common words (1: the same text).

    Both must forbid or both must ask, their names must be the same set, and the words must be common to
    `SAME` (with names) or `SAME_NAMELESS` (without).
    """
    return 1.0 if normal(a) == normal(b) else agreement(wording(a), wording(b))


def agreement(first: Wording, second: Wording) -> float:
    """`says_same` of texts that are not the same text, from their sets."""
    if first.forbids != second.forbids or first.names != second.names:
        return 0.0
    found = share(first.words, second.words)
    return found if found >= (SAME if first.names else SAME_NAMELESS) else 0.0


def likeness(a: Wording, b: Wording) -> float:
    """From 0 to 1: common names and words over all of them, a name counting `NAME_WEIGHT` words."""
    common = NAME_WEIGHT * len(a.names & b.names) + len(a.words & b.words)
    whole = NAME_WEIGHT * len(a.names | b.names) + len(a.words | b.words)
    return common / whole if whole else 0.0
