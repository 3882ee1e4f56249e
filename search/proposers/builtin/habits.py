"""Mistakes that language models make in Triton, as edits of a right kernel. Pure; the judge finds every one of them.

With the dialect "mixed" the built-in proposer makes each of them at its own rate, so that failures, rules and their
effect can be tried without a model. What the judge says of each stands in `said`; a test asks the real judge.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from memory.prompting.assignment import PromptRule

INSTALLED, MIXED = "installed", "mixed"
DIALECTS = (INSTALLED, MIXED)
DIALECT_HELP = "of the built-in proposer; mixed makes the mistakes of language models, to try memory without one"

Change = Callable[[str], str]


@dataclass(frozen=True)
class Habit:
    """One mistake.

    `rate` is how often it is made where the kernel gives occasion. `change` makes it and returns the text as it was
    where there is none. `said` is part of what the judge on the interpreter says. `causes` are the known errors
    (`Rule.pattern`) whose lesson warns of it. Any other rule does when its claim holds every word of one of `words`.
    """

    code: str
    rate: float
    change: Change
    said: str
    words: tuple[tuple[str, ...], ...]
    causes: tuple[str, ...] = ()

    def named_by(self, lesson: PromptRule) -> bool:
        """Whether a rule warns of this mistake: by the error that it was learned from, else by its words."""
        if lesson.pattern in (self.code, *self.causes):
            return True
        claim = lesson.text.lower()
        return any(all(_holds(claim, word) for word in words) for words in self.words)


def spoken(source: str, seed: int, lessons: Iterable[PromptRule] = ()) -> tuple[str, tuple[str, ...]]:
    """`source` with the mistakes that this seed makes and no rule warns of, and their codes.

    Each mistake is drawn for by itself, and none takes the occasion of another: a rule takes away its own and no other.
    """
    warned = tuple(lessons)
    made = []
    for habit in HABITS:
        if not _drawn(habit, seed) or any(habit.named_by(lesson) for lesson in warned):
            continue
        changed = habit.change(source)
        if changed != source:
            source = changed
            made.append(habit.code)
    return source, tuple(made)


def _holds(claim: str, word: str) -> bool:
    """As a word of its own: "tl.max" is not in "tl.maximum"."""
    return re.search(rf"(?<!\w){re.escape(word)}(?!\w)", claim) is not None


def _drawn(habit: Habit, seed: int) -> bool:
    digest = hashlib.sha256(f"habit:{seed}:{habit.code}".encode()).digest()
    return int.from_bytes(digest[:8], "big") / 2**64 < habit.rate


def _swap(pattern: str, new: str, count: int = 0) -> Change:
    found = re.compile(pattern, re.MULTILINE)
    return lambda source: found.sub(new, source, count=count)


def _without_mask(source: str) -> str:
    """The first masked load of the kernel loses its mask."""
    return re.sub(r"tl\.load\((\w+ \+ \w+), mask=\w+, other=0(\.0)?", r"tl.load(\1", source, count=1)


def _with_meta(source: str) -> str:
    """A parameter of old examples, `meta`, that no launch fills."""
    return re.sub(r"^(def _kernel\w*\(.*?BIG: tl\.constexpr)", r"\1, meta", source, count=1, flags=re.MULTILINE)


def _skip(source: str) -> str:
    """`continue` in the loop of a resident grid or of a row walk."""
    loop = re.compile(r"^( +)(for (tile|start) in range\(.*\):)$", re.MULTILINE)
    return loop.sub(lambda at: f"{at[0]}\n{at[1]}    if {at[3]} < 0:\n{at[1]}        continue", source, count=1)


HABITS: tuple[Habit, ...] = (
    # names of other versions, of libdevice and of torch
    Habit(
        "math-tanh",
        0.35,
        _swap(r"(?<!def )\b_tanh\(", "tl.math.tanh("),
        "module 'triton.language.math' has no attribute 'tanh'",
        (("tl.math.tanh",), ("triton.language.math.tanh",), ("tl.math", "tanh"), ("triton.language.math", "tanh")),
    ),
    Habit(
        "tl-libdevice",
        0.12,
        _swap(r"\btl\.exp\(", "tl.libdevice.exp("),
        "module 'triton.language' has no attribute 'libdevice'",
        (("tl.libdevice",), ("triton.language.libdevice",), ("triton.language", "attribute", "libdevice")),
    ),
    Habit(
        "tl-relu",
        0.25,
        _swap(r"tl\.where\((\w+) < 0\.0, 0\.0, \1\)", r"tl.relu(\1)"),
        "module 'triton.language' has no attribute 'relu'",
        (("tl.relu",), ("triton.language.relu",), ("triton.language", "relu")),
    ),
    Habit(
        "torch-in-kernel",
        0.08,
        _swap(r"(tl\.store\(\w+ \+ \w+, )(\w+),", r"\1torch.relu(\2),"),
        "Unsupported function referenced: <built-in method",
        (("torch function", "kernel"), ("call torch", "kernel"), ("torch", "inside", "kernel")),
        ("not-jit",),
    ),
    # sizes and shapes
    Habit(
        "arange-not-power-of-two",
        0.12,
        _swap(r"(\bBLOCK=|\"BLOCK\": )\d+\b", r"\g<1>1000"),
        "must be a power of 2",
        (("power of 2",), ("power of two",), ("powers of two",)),
        ("arange-power-of-two",),
    ),
    Habit(
        "arange-not-constexpr",
        0.08,
        _swap(r"tl\.arange\(0, (?:ROWS|BLOCK)\)", "tl.arange(0, tile + 1)", 1),
        "arange's arguments must be of type tl.constexpr",
        (("arange", "constexpr"),),
        ("arange-constant",),
    ),
    Habit(
        "load-without-mask",
        0.12,
        _without_mask,
        "past the end of",
        (("mask", "load", "past the end"), ("mask", "load", "out of bounds"), ("out-of-bounds", "mask")),
        ("out-of-bounds",),
    ),
    # keywords and arguments
    Habit(
        "reduce-dim",
        0.15,
        _swap(r"(tl\.(?:sum|max|min)\(.*?), axis=1", r"\1, dim=1"),
        "got an unexpected keyword argument 'dim'",
        (("dim", "axis"), ("'dim'",)),
        ("keyword-unknown",),
    ),
    Habit(
        "store-other",
        0.08,
        _swap(r"(tl\.store\(.*, mask=\w+)\)$", r"\1, other=0)"),
        "got an unexpected keyword argument 'other'",
        (("tl.store", "other"),),
        ("keyword-unknown",),
    ),
    Habit(
        "zeros-without-dtype",
        0.2,
        _swap(r"tl\.zeros\((\[[^\]]*\]), tl\.float32\)", r"tl.zeros(\1)"),
        "missing a required argument: 'dtype'",
        (("tl.zeros", "dtype"),),
    ),
    Habit(
        "max-of-two-values",
        0.1,
        _swap(r"(?<= )(\w+) - (r\d+)$", r"tl.max(\1, 0.0)", 1),
        "tl.max(",
        (("tl.max", "maximum"), ("tl.max", "two")),
    ),
    # control flow and launches
    Habit(
        "continue-in-kernel",
        0.25,
        _skip,
        "unsupported AST node type: Continue",
        (("continue", "kernel"), ("continue", "statement"), ("continue", "loop")),
        ("loop-exit",),
    ),
    Habit(
        "missing-argument",
        0.05,
        _with_meta,
        "missing 1 required positional argument: 'meta'",
        (("'meta'",),),
        ("launch-argument-missing",),
    ),
    Habit(
        "data-ptr",
        0.05,
        _swap(r"(_kernel\w*\[.*?\]\()(\w+),", r"\1\2.data_ptr(),", 1),
        "Unsupported ptr type",
        (("data_ptr",), ("unsupported ptr type",)),
        ("not-a-pointer",),
    ),
    Habit(
        "launch-keyword-in-brackets",
        0.05,
        _swap(r"(_kernel\w*\[)(.*?)(,?\]\()", r"\1\2, num_warps=8](", 1),
        "invalid syntax",
        (("num_warps", "bracket"), ("keyword", "bracket")),
    ),
    Habit(
        "launch-without-grid",
        0.05,
        _swap(r"(_kernel\w*)\[(.*?),?\]\(", r"\1(", 1),
        "got an unexpected keyword argument 'num_warps'",
        (("launch", "without", "grid"), ("without a grid",)),
    ),
)
BY_CODE = {habit.code: habit for habit in HABITS}
