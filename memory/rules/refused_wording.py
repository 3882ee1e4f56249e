"""What the words of a rule must not hold: places, names and values of the failure it was learned from. Pure."""

from __future__ import annotations

import ast
import builtins
import keyword
import re

from judge.values.parsing import parse_module
from memory.patterns.api_names import SHARED

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
