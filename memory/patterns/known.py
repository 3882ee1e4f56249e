"""A known error, what was recognised of one failure, and the names that every kernel shares."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

_PLAIN = re.compile(r"[A-Za-z_]\w{0,31}(?:\.[A-Za-z_]\w{0,31}){0,4}")


@dataclass(frozen=True)
class Pattern:
    """One known error. It is recognised by a reason code of the judge (`kinds`) or by its words (`message`).

    Exactly one of `lesson` (one sentence: what not to do, and what to do instead), `nothing` (why there is nothing to
    learn) and `unfit` (why it must not teach) is said. `{name}` and the like in a lesson take the named groups of
    `message`; `{advice}` is what `advice` has for the group `name`, else its entry "".
    """

    code: str
    title: str
    message: str = ""  # searched in the cause, see memory.patterns.messages.cause_of
    kinds: tuple[str, ...] = ()
    lesson: str = ""
    nothing: str = ""
    unfit: str = ""
    operator: str = ""  # "tl.dot"; or "{op}", a named group
    versioned: bool = False  # holds for the Triton that said so: another one may know better
    by_arch: bool = False  # holds for the GPU that said so
    advice: Mapping[str, str] = field(default_factory=dict, hash=False)
    known: frozenset[str] = frozenset()  # values of `name` that may be quoted; empty: any plain name
    plain: str = ""  # the lesson where `name` may not be quoted
    of: str = ""  # "{module}": the library's module or class that lacks `name`; it is asked before the lesson is used

    def __post_init__(self) -> None:
        if not re.fullmatch(r"[a-z0-9]+(?:-[a-z0-9]+)*", self.code) or len(self.code) > 40:
            raise ValueError(f"{self.code!r}: a code is a few words joined by hyphens")
        if sum(map(bool, (self.lesson, self.nothing, self.unfit))) != 1:
            raise ValueError(f"{self.code}: exactly one of lesson, nothing and unfit is said")
        if not self.message and not self.kinds:
            raise ValueError(f"{self.code}: nothing could be recognised")
        quotes = self.known or any(f"{{{name}}}" in self.lesson for name in ("name", "module", "op"))
        if quotes and not self.plain:
            raise ValueError(f"{self.code}: it needs words for a name that may not be quoted")

    @cached_property
    def regex(self) -> re.Pattern[str] | None:
        return re.compile(self.message) if self.message else None

    def groups(self, kind: str, cause: str) -> dict[str, str] | None:
        """The named groups where it is this error, else None."""
        found = self.regex.search(cause) if self.regex is not None else None
        if found is not None:
            return {name: value for name, value in found.groupdict().items() if value}
        return {} if kind in self.kinds else None


@dataclass(frozen=True)
class Match:
    """A pattern with the named groups of one failure."""

    pattern: Pattern
    groups: Mapping[str, str]

    @property
    def operator(self) -> str:
        """What the kernel was doing, where the error says it; a plain dotted name of at most 60 letters or nothing."""
        text = self.pattern.operator
        if "{op}" in text:
            name = self.groups.get("op", "")
            text = text.replace("{op}", name) if _PLAIN.fullmatch(name) else ""
        return text[:60]

    @property
    def missing(self) -> tuple[str, str] | None:
        """(module or class, name) that the library is said to lack; the first is empty for one that is no library's.

        None where the lesson says nothing of the kind.
        """
        name = self.groups.get("name", "")
        if not self.pattern.of or not name:
            return None
        return self.pattern.of.replace("{module}", self.groups.get("module") or self.groups.get("source", "")), name

    @property
    def claim(self) -> str:
        """The lesson in words; empty when it teaches nothing. Quotes nothing of the error but names that are known."""
        pattern = self.pattern
        if not pattern.lesson:
            return ""
        name = self.groups.get("name", "")
        if pattern.known and name not in pattern.known:
            return pattern.plain
        plain = {key: value for key, value in self.groups.items() if _PLAIN.fullmatch(value)}
        words = {"advice": pattern.advice.get(name, pattern.advice.get("", "")), **plain}
        try:
            return pattern.lesson.format(**words)
        except KeyError:  # a group that did not take part, or is no plain name
            return pattern.plain


_FUNCTIONS = """
arange argmax argmin associative_scan atomic_add atomic_cas atomic_max atomic_min cast cat cumprod cumsum
device_assert dot dot_scaled exp expand_dims flip fma full gather histogram join load log make_block_ptr max
maximum min minimum permute program_id rand randn reduce reshape sigmoid softmax sort split sqrt static_range
store sum swizzle2d trans view where xor_sum zeros zeros_like
"""
_OTHERS = """
Model ModelNew forward __init__ prepare load_reference_state get_inputs get_init_inputs get_cases self grid meta
key num_warps num_stages num_ctas maxnreg input_precision allow_tf32 boundary_check padding_option
cache_modifier dtype shape eviction_policy device_print next_power_of_2 multiple_of max_contiguous empty_like
ones_like num_programs mask other axis inline_asm_elementwise static_assert static_print float8e4nv float8e5
float16 float32 float64 bfloat16 int1 int8 int16 int32 int64 uint8 uint32 tf32x3 no_grad configs kwargs reset_to_zero
restore_value layer_norm batch_norm group_norm conv1d conv2d conv3d contiguous is_contiguous out_dtype acc exp2
log2 log1p rsqrt erf sm_70 sm_75 sm_80 sm_86 sm_89 sm_90 sm_100 sm_120 x w a b i n
"""
FUNCTIONS = frozenset(_FUNCTIONS.split())
SHARED = FUNCTIONS | frozenset(_OTHERS.split())
