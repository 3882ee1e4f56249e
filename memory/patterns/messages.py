"""What an error text says: the one line that tells the cause, and that line with its accidents masked. Pure."""

from __future__ import annotations

import re

MESSAGE_CHARS = 4000  # of a failure's text, as kept and as looked at
MASKED_CHARS = 300
_CAUSE_CHARS = 1000

_COLOUR = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
_TRACEBACK = "Traceback (most recent call last):"
_CHAINED = re.compile(r"^(?:The above exception was|During handling of the above)")
_EXCEPTION = re.compile(
    r"^(?:[\w]+\.)*\w*(?:Error|Exception|Warning|Interrupt|Exit|Construct|Failure|Resources|Impl)\b"
)
_AT = re.compile(r"^(?:[\w.]+: )?at \d+:\d+:$")  # how Triton begins a located message: code, caret and cause follow
_CARET = re.compile(r"^\s*\^[\s^~]*$")

# What stands before the cause, once or several times.
_BEFORE: tuple[re.Pattern[str], ...] = (
    re.compile(r"^importing \S+ raised "),
    re.compile(r"^[\w.]+\(\.*\) raised "),
    re.compile(r"^after forward looked at values that compiling does not know(?::| it raised) "),
    re.compile(r"^(?:[\w./+-]*/)?[\w.+-]+\.py:\d+(?::\d+)?: (?:error: )?"),
    re.compile(r"^(?:line|at) \d+(?::\d+)?: "),
    re.compile(r"^(?:triton\.\w+(?:\.\w+)*\.)?(?:CompilationError|InterpreterError): (?=\S)"),
    re.compile(r"^(?:[a-z_]\w*\.)+(?=[A-Z]\w*(?::|\())"),  # the module of an exception's class
    re.compile(r"^(\w+): (?=\1(?::|$))"),  # "TypeError: TypeError: ..."
)
_REPR = re.compile(r"^([A-Z]\w*)\((['\"])(.*)\2,?\)$", re.DOTALL)  # an exception as it prints itself in a list

# Order matters: a path holds numbers, a hexadecimal address holds digits.
_MASKS: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r"(?:/[\w.+-]+){2,}"), "<path>"),
    (re.compile(r"\b[\w-]+\.py:\d+(?::\d+)?"), "<line>"),
    (re.compile(r"\b0x[0-9a-fA-F]+\b"), "<address>"),  # before lines: "<function f at 0x7f3a>"
    (re.compile(r"\b(?:line|at) \d+(?::\d+)?", re.IGNORECASE), "<line>"),
    (re.compile(r"(['\"`])(?:(?!\1).){1,120}\1"), "<name>"),
    (re.compile(r"\b[a-z_][A-Za-z0-9]*_[A-Za-z0-9_]+\b"), "<name>"),  # snake_case: kernels, arguments
    (re.compile(r"\b[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+\b"), "<name>"),  # BLOCK_SIZE and friends
    (re.compile(r"\b\d+(?:\s?[x×]\s?\d+)+\b"), "<n>"),
    (re.compile(r"[-+]?\b\d+(?:\.\d+)?(?:[eE][-+]?\d+)?\b%?"), "<n>"),
    (re.compile(r"[\[(]\s*<n>(?:\s*[,x×*]\s*<n>)*\s*,?\s*[\])]"), "<n>"),  # shapes of any rank
    (re.compile(r"\s+"), " "),
)
_MASKED = re.compile(r"<(?:path|line|address|name|n)>")


def cause_of(message: str) -> str:
    """The line that says what went wrong, without where: "TypeError: 'dtype' object is not callable".

    A bare word such as "CompilationError" when the text names no cause; empty when there is no text.
    """
    lines = [_COLOUR.sub("", line).rstrip() for line in message[:MESSAGE_CHARS].splitlines()]
    lines = [line for line in lines if line.strip()]
    if not lines:
        return ""
    if any(_TRACEBACK in line for line in lines):
        lines = _last_exception(lines)
    return _unwrapped(_located(lines))[:_CAUSE_CHARS]


def masked(cause: str) -> str:
    """One line with names, numbers, shapes, paths, addresses and line numbers masked; at most 300 characters.

    Of a longer cause than `cause_of` gives, the beginning: the masks retry, and their time grows with its square.
    """
    text = _COLOUR.sub("", cause[:_CAUSE_CHARS])
    for pattern, mask in _MASKS:
        text = pattern.sub(mask, text)
    return text.strip()[:MASKED_CHARS]


def readable(text: str) -> str:
    """A masked line for people: an ellipsis where something was masked, instead of `<n>` or `<name>`."""
    return _MASKED.sub("…", text)


def _last_exception(lines: list[str]) -> list[str]:
    """The lines of a traceback from its last exception on; of the one before where the last says nothing itself."""
    starts = [place for place, line in enumerate(lines) if _EXCEPTION.match(line)]
    if not starts:
        return lines[-1:]
    last = lines[starts[-1] :]
    says_nothing = _CARET.match(last[-1]) is not None and len(starts) > 1
    if not says_nothing:
        return last
    before = lines[starts[-2] : starts[-1]]
    end = next((place for place, line in enumerate(before) if _CHAINED.match(line) or _TRACEBACK in line), len(before))
    return before[:end]


def _located(lines: list[str]) -> str:
    """The first line, but of a message that Triton placed in the code what follows the caret."""
    first = lines[0].strip()
    if not _AT.match(first):
        return first
    name = first.partition(":")[0] if not first.startswith("at ") else "CompilationError"
    return name if _CARET.match(lines[-1]) else lines[-1].strip()


def _unwrapped(text: str) -> str:
    text = text.strip()
    while True:
        plain = text
        for before in _BEFORE:
            plain = before.sub("", plain, count=1)
        found = _REPR.match(plain)
        if found is not None:
            plain = f"{found[1]}: {found[3]}"
        plain = re.sub(r"^(?:[\w.]+\.)?(\w*(?:Error|Exception))(?:: ?)?\s*\^*$", r"\1", plain).strip()
        if plain == text:
            return plain
        text = plain
