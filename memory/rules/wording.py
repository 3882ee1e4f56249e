"""The text of a rule: what it must not say, when two say the same or the opposite, what an edit changed. Pure.

Names of functions and arguments decide more than the words around them: `tl.load` and `triton.language.load` are one
name, and "cannot use tl.any" is not "cannot use tl.all".
"""

from __future__ import annotations

import ast
import builtins
import hashlib
import keyword
import re
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from functools import cached_property, lru_cache

from judge.values.parsing import parse_module
from memory.patterns.known import SHARED
from memory.prompting.scopes import Scope

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


def agreement(first: Wording, second: Wording) -> float:
    """How surely two texts say the same: 0 when they do not, else the share of common words.

    Both must forbid or both must ask, their names must be the same set, and the words must be common to
    `SAME` (with names) or `SAME_NAMELESS` (without).
    """
    if first.forbids != second.forbids or first.names != second.names:
        return 0.0
    found = share(first.words, second.words)
    return found if found >= (SAME if first.names else SAME_NAMELESS) else 0.0


def likeness(a: Wording, b: Wording) -> float:
    """From 0 to 1: common names and words over all of them, a name counting `NAME_WEIGHT` words."""
    common = NAME_WEIGHT * len(a.names & b.names) + len(a.words & b.words)
    whole = NAME_WEIGHT * len(a.names | b.names) + len(a.words | b.words)
    return common / whole if whole else 0.0


AGAINST = 0.6  # share of common names, or of words, above which sentences of opposite sign contradict each other
COMMON = 64  # a word or name of more rules than this says too little to look at all of them for it
MOST = 5  # near-duplicates and contradictions shown for one rule


@dataclass(frozen=True)
class Said:
    """What a rule says and where it holds."""

    id: int
    text: str
    scope: Scope = field(default_factory=Scope)


@dataclass
class Likeness:
    """Built once for a set of rules; `near` and `against` then look at those only that share something rare."""

    rules: dict[int, tuple[Wording, Scope]] = field(default_factory=dict)
    places: dict[str, list[int]] = field(default_factory=lambda: defaultdict(list))

    def near(self, rule_id: int) -> list[tuple[int, float]]:
        """Other rules of the same sign that nearly say the same, the likest first."""
        own, _ = self.rules[rule_id]
        found = [
            (other, like)
            for other in self._sharing(rule_id)
            if self.rules[other][0].forbids == own.forbids and (like := likeness(own, self.rules[other][0])) >= NEAR
        ]
        return sorted(found, key=lambda pair: (-pair[1], pair[0]))[:MOST]

    def against(self, rule_id: int) -> list[int]:
        """Rules that ask for what this one forbids, or forbid what it asks for, where both can hold."""
        own, scope = self.rules[rule_id]
        return [
            other
            for other in sorted(self._sharing(rule_id))
            if self.rules[other][0].forbids != own.forbids
            and share(self.rules[other][0].names, own.names) >= AGAINST
            and share(self.rules[other][0].words, own.words) >= (AGAINST if not own.names else AGAINST / 2)
            and scope.meets(self.rules[other][1])
        ][:MOST]

    @cached_property
    def contradicted(self) -> frozenset[int]:
        """Every rule that another one contradicts."""
        signs = Counter(own.forbids for own, _ in self.rules.values())
        fewer = signs[True] < signs[False]
        pairs = ((pk, self.against(pk)) for pk, (own, _) in self.rules.items() if own.forbids == fewer)
        return frozenset(pk for one, others in pairs if others for pk in (one, *others))

    def _sharing(self, rule_id: int) -> set[int]:
        """Rules with a name in common, or a word when this one names nothing; very common ones lead nowhere alone."""
        own, _ = self.rules[rule_id]
        keys = [self.places[key] for key in _keys(own)]
        rare = [place for place in keys if len(place) <= COMMON] or sorted(keys, key=len)[:1]
        return {pk for place in rare for pk in place[: 4 * COMMON]} - {rule_id}


@lru_cache(maxsize=4)
def likeness_of(said: tuple[Said, ...]) -> Likeness:
    """The index of these rules. Cached: pages ask again for the same rules until one is written or reworded."""
    made = Likeness()
    for rule in said:
        own = wording(rule.text)
        made.rules[rule.id] = (own, rule.scope)
        for key in _keys(own):
            made.places[key].append(rule.id)
    return made


def _keys(own: Wording) -> Iterable[str]:
    return own.names or {f" {word}" for word in own.words}


@dataclass(frozen=True)
class Piece:
    """A stretch of text: "same", "gone" or "new"."""

    kind: str
    text: str


def changes(old: str, new: str) -> tuple[Piece, ...]:
    """Pieces that give `old` without the new ones and `new` without the gone ones. At most 1,000 letters."""
    before, after = _words(old), _words(new)
    pieces: list[Piece] = []
    for tag, i1, i2, j1, j2 in SequenceMatcher(None, before, after, autojunk=False).get_opcodes():
        if tag == "equal":
            pieces.append(Piece("same", "".join(before[i1:i2])))
            continue
        pieces += [Piece("gone", "".join(before[i1:i2]))] if i2 > i1 else []
        pieces += [Piece("new", "".join(after[j1:j2]))] if j2 > j1 else []
    return tuple(pieces)


def _words(text: str) -> list[str]:
    return re.findall(r"\s+|\w+|[^\w\s]", text)


MOST_CHARS = 400
LEAST_CHARS = 15

_MODULES = ("tl.", "triton.", "torch.", "libdevice.", "math.")
_NUMBERS = frozenset({"1048576", "131072"})  # Triton's own limits

# Written to the model that will read the rule, also joined to one name: errors are in the words of strangers.
_ORDER = re.compile(
    r"(?:ignor|disregard|forget|overrid)[a-z]*(?:[\W_]+[a-z]+){0,3}?[\W_]+(?:all|any|other|these|previous|prior|above|"
    r"earlier|your|the)(?:[\W_]+[a-z]+){0,2}?[\W_]+(?:instruction|prompt|guideline)s?|"
    r"(?:ignor|disregard|forget|overrid)[a-z]*[\W_]+(?:the[\W_]+)?(?:all|other|these|previous|prior|earlier)"
    r"(?:[\W_]+[a-z]+){0,2}?[\W_]+rules?|system[\W_]*prompt|you[\W_]+are[\W_]+now|</?(?:system|user|assistant)>|<\|",
    re.IGNORECASE,
)

_CHECKS: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r"[\x00-\x1f\x7f\u200b-\u200f\u2028-\u202e\u2066-\u2069]"), "it holds control or invisible characters"),
    (re.compile(r"\b(?:lines?|rows? of the file|col(?:umn)?s?)\s*:?\s*\d", re.IGNORECASE), "it quotes a line number"),
    (re.compile(r"\bat \d+:\d+|:\d+:\d|\.py:\d+"), "it quotes a line number"),
    (re.compile(r"https?://|\bwww\."), "it holds an address of the network"),
    (re.compile(r"(?:^|[\s\"'`(=])(?:/|~/|\.\.?/|[A-Za-z]:\\)[\w.+-]+[/\\]"), "it quotes a path"),
    (
        re.compile(r"\b(?!(?:tl|math|torch|libdevice)\.)[\w+-]+\.(?:py|cu|so|ptx|cubin|json|txt|log)\b"),
        "it quotes the name of a file",
    ),
    (re.compile(r"\b0x[0-9a-fA-F]+"), "it quotes an address"),
    (re.compile(r"\b(?:sk|pk|ghp|gho|xox\w|hf|AKIA)[-_]?[A-Za-z0-9]{12,}"), "it holds what looks like a key"),
    (re.compile(r"\b(?=\w*\d)(?=\w*[A-Za-z])[A-Za-z0-9]{20,}\b"), "it holds what looks like a key"),
    (re.compile(r"(?i)\b(?:api[_-]?key|token|password|secret)\s*[=:]"), "it holds what looks like a key"),
    (re.compile(r"\b\d+\.\d{3,}|\b\d+(?:\.\d+)?e[-+]?\d+", re.IGNORECASE), "it quotes a value of one case"),
    (re.compile(r"[\[(]\s*\d+\s*(?:,\s*\d+\s*){1,}[\])]|\b\d{2,}\s?[x×]\s?\d{2,}\b"), "it quotes a shape of one case"),
    (re.compile(r"```"), "it holds a block of code"),
    (_ORDER, "it gives orders about instructions, not about kernels"),
    (re.compile(r"(?i)<\s*/?\s*(?:script|img|iframe|svg|style|system|assistant|user)\b"), "it holds markup"),
)
_LONG_NUMBER = re.compile(r"(?<![\w.])\d{4,}(?![\w.])")
_POWERS = frozenset(1 << place for place in range(10, 21))
_UNDEFINED = re.compile(r"name '(\w+)' is not defined|NameError\(?[:'\"]+ ?(\w+) is not defined")
_CODE = re.compile(r"[`'\"]([^`'\"\s]{1,80})[`'\"]|(\b[A-Za-z_]\w*(?:\.\w+)*)")
_INVENTED = (
    r"tmp\w*|temp\w*|\w+_(?:ptrs?|kernel|val|vals|buf|idx|offs?|rows?|cols?|block|tile|mask|out|in)|"
    r"(?:ptr|offs?|mask|buf|acc|kernel)_\w+|[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+|BLOCK\w*"
)
_TEMPORARY = re.compile(rf"^(?:{_INVENTED}|[a-z]+\d+)$")
_INVENTED_IN_MODULE = re.compile(rf"^(?:{_INVENTED})$")


def claim_check(claim: str, *, source: str = "", message: str = "") -> str:
    """Why these words cannot be a rule ("it quotes a path"); empty when they can.

    `source` is the kernel and `message` the error that they were learned from, empty where there is none: what only
    those two know must not stand in a rule.
    """
    text = claim.strip()
    if len(text) < LEAST_CHARS:
        return "it is too short to say what to do"
    if len(text) > MOST_CHARS:
        return f"it has {len(text)} characters; a rule has at most {MOST_CHARS}"
    for pattern, why in _CHECKS:
        if pattern.search(text):
            return why
    numbers = set(_LONG_NUMBER.findall(text.replace(",", ""))) - _NUMBERS
    if any(int(number) not in _POWERS or number in message for number in numbers):
        return "it quotes a value of one case"
    undefined = {name for pair in _UNDEFINED.findall(message) for name in pair if name}
    return _name_of_one_kernel(text, names_in(source) | undefined, undefined)


def claim_fault(claim: str) -> str:
    """The same as a sentence for the person who wrote them; empty when they can."""
    why = claim_check(claim)
    return f"{why[0].upper()}{why[1:]}. Say it in general words." if why else ""


def _name_of_one_kernel(text: str, own: frozenset[str], certain: set[str]) -> str:
    for quoted, bare in _CODE.findall(text):
        token = quoted or bare
        if token.startswith(_MODULES):  # of a public module: the name itself may still be this kernel's invention
            last = token.rpartition(".")[2]
            if last not in SHARED and _INVENTED_IN_MODULE.match(last):
                return f"it quotes {last}, a name of one kernel"
            continue
        if token in SHARED or keyword.iskeyword(token) or hasattr(builtins, token):
            continue
        parts = [part for part in re.split(r"[^\w]+", token) if part and part not in SHARED]
        for part in parts:
            looks_like_code = bool(quoted) or "_" in part or any(char.isdigit() for char in part) or part.isupper()
            if part in certain and len(part) > 3:
                return f"it quotes {part}, a name of one kernel"
            if looks_like_code and (part in own or (_TEMPORARY.match(part) and len(part) > 1)):
                return f"it quotes {part}, a name of one kernel"
    return ""


def names_in(source: str) -> frozenset[str]:
    """Names that a module binds: its functions, arguments, variables. Empty for text that does not parse."""
    try:
        tree = parse_module(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return frozenset()
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.arg):
            names.add(node.arg)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
    return frozenset(names) - SHARED
