"""What can be said about an uploaded problem file without running it: bytes, text, syntax, names, title."""

from __future__ import annotations

import ast
from contextlib import suppress
from dataclasses import dataclass

from judge.bench.foreign.sources import LoadError, check_source
from judge.values.jobs import GPU_CASE, INTERPRETER_CASE
from judge.values.parsing import parsed
from judge.values.texts import uniform_text
from judge.values.weights import WEIGHT, check_number, weight_of

MAX_BYTES = 1 << 20

_WHAT_TO_ADD = {
    "Model": "Add `class Model(torch.nn.Module)` with `__init__` and `forward`: the reference to make faster.",
    "get_inputs": "Add `def get_inputs():` that returns the list of arguments for `Model.forward`.",
    "get_init_inputs": "Add `def get_init_inputs():` that returns the list of arguments for `Model(...)` ([] if none).",
}
_BINARY_SIGNS = (b"\x00", b"\x7fELF", b"PK\x03\x04", b"\x89PNG", b"%PDF")


class ProblemRejected(Exception):
    """The file cannot become a problem. `str()` says what to change; `line` is 1-based, or None."""

    def __init__(self, message: str, line: int | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.line = line


@dataclass(frozen=True)
class SourceFacts:
    """A problem text that passed the checks, and what its docstring says about it."""

    text: str
    title: str = ""  # first line of the docstring
    family: str = ""  # from a docstring line "Family: ..."
    description: str = ""
    cases: tuple[str, ...] = ()  # names in get_cases(), as far as they are written as literals


def check_problem(data: bytes, *, max_bytes: int = MAX_BYTES) -> SourceFacts:
    """Facts about an uploaded file. Raises ProblemRejected with the line and what to change. Runs no code."""
    text = _decode(data, max_bytes)
    try:
        tree = check_source(text, needs=(), max_bytes=max_bytes)
    except LoadError as error:
        prefix = "This file is not valid Python: " if error.reason == "source.syntax" else "This file was not taken: "
        raise ProblemRejected(f"{prefix}{error.message}", error.line) from error
    missing = [name for name in _WHAT_TO_ADD if not _defines(text, name, max_bytes)]
    if missing:
        names = ", ".join(f"`{name}`" for name in missing)
        hints = " ".join(_WHAT_TO_ADD[name] for name in missing)
        if "Model" in missing and _defines(text, "ModelNew", max_bytes):
            hints = f"`ModelNew` is a candidate; the reference it answers to belongs here. {hints}"
        raise ProblemRejected(f"The file does not define {names} at its top level. {hints}")
    _check_weights(text)
    title, family, description = _docstring(tree)
    return SourceFacts(text, title, family, description, declared_cases(text))


def check_candidate(source: str, *, max_bytes: int = MAX_BYTES) -> str:
    """A kernel written by hand as the judge takes it. Raises ProblemRejected with what to change. Runs no code."""
    text = uniform_text(source)
    if not text.strip():
        raise ProblemRejected("The kernel is empty. Paste the whole module with `class ModelNew(torch.nn.Module)`.")
    try:
        check_source(text, needs=("ModelNew",), max_bytes=max_bytes)
    except LoadError as error:
        raise ProblemRejected(f"The kernel was not taken: {error.message}", error.line) from error
    return text if text.endswith("\n") else text + "\n"


def _decode(data: bytes, max_bytes: int) -> str:
    if len(data) > max_bytes:
        raise ProblemRejected(
            f"The file has {len(data) / 1024:,.0f} KiB; the limit is {max_bytes / 1024:,.0f} KiB. "
            "Create large tensors in get_inputs() instead of writing them out."
        )
    if not data.strip():
        raise ProblemRejected("The file is empty. Choose a Python file with Model, get_inputs and get_init_inputs.")
    if any(data.startswith(sign) for sign in _BINARY_SIGNS) or b"\x00" in data:
        raise ProblemRejected("This is a binary file. Choose the Python source file (.py) of the module.")
    try:
        return uniform_text(data.decode())
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise ProblemRejected(
            f"The file is not UTF-8: byte 0x{data[error.start]:02x} at line {line}. Save it as UTF-8 and try again.",
            line,
        ) from error


def _defines(text: str, name: str, max_bytes: int) -> bool:
    try:
        check_source(text, needs=(name,), max_bytes=max_bytes)
    except LoadError:
        return False
    return True


def _docstring(tree: ast.Module) -> tuple[str, str, str]:
    """(title, family, description): first line, the "Family:" line, and the rest of the module's docstring."""
    lines = (ast.get_docstring(tree) or "").splitlines()
    title = lines[0].strip().rstrip(".")[:120] if lines else ""
    family, rest = "", []
    for line in lines[1:]:
        name, _, value = line.partition(":")
        if name.strip().lower() == "family" and value.strip() and not family:
            family = value.strip()[:40]
        else:
            rest.append(line)
    return title, family, "\n".join(rest).strip()


def declared_cases(source: str) -> tuple[str, ...]:
    """Case names written as literal keys in what `get_cases` returns; () when there are none or they are computed."""
    return tuple(_literal_cases(source))


def declared_weights(source: str) -> dict[str, float]:
    """Weights written as numbers in what `get_cases` returns, by case; {} when no case has one. One that is no weight
    is left out: `check_problem` refuses it, and so does the preflight."""
    found: dict[str, float] = {}
    for name, value in _literal_cases(source).items():
        written = _weight_written(value)
        with suppress(ValueError):
            found |= {} if written is None else {name: weight_of(name, {WEIGHT: written[1]})}
    return found


def _check_weights(source: str) -> None:
    """Raise ProblemRejected, with its line, for a weight that is written as a value and is no weight."""
    for name, value in _literal_cases(source).items():
        written = _weight_written(value)
        if written is not None:
            try:
                weight_of(name, {WEIGHT: written[1]})
            except ValueError as error:
                raise ProblemRejected(f"This file was not taken: {error}.", written[0]) from error
    try:
        check_number(declared_weights(source))
    except ValueError as error:
        raise ProblemRejected(f"This file was not taken: {error}.") from error


# What an expression gives whatever names in it mean; none of these is a weight.
_KINDS: dict[type[ast.expr], object] = {
    ast.List: [], ast.ListComp: [], ast.Tuple: (), ast.Set: set(), ast.SetComp: set(), ast.Dict: {}, ast.DictComp: {},
    ast.JoinedStr: "", ast.GeneratorExp: iter(()), ast.Lambda: len,
}  # fmt: skip


def _weight_written(case: ast.expr) -> tuple[int, object] | None:
    """The line and value of a case's weight; None where the text alone does not say it, such as a name or a sum."""
    pairs = zip(case.keys, case.values, strict=True) if isinstance(case, ast.Dict) else ()
    for key, value in pairs:
        if isinstance(key, ast.Constant) and key.value == WEIGHT:
            if type(value) in _KINDS:
                return value.lineno, _KINDS[type(value)]
            with suppress(ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
                return value.lineno, ast.literal_eval(value)
    return None


def _literal_cases(source: str) -> dict[str, ast.expr]:
    """The entries of what `get_cases` returns whose names are written as literals."""
    found: dict[str, ast.expr] = {}
    for node in _top_level(source):
        if isinstance(node, ast.FunctionDef) and node.name == "get_cases":
            for inner in ast.walk(node):
                if isinstance(inner, ast.Return) and isinstance(inner.value, ast.Dict):
                    for key, value in zip(inner.value.keys, inner.value.values, strict=True):
                        if isinstance(key, ast.Constant) and isinstance(key.value, str):
                            found[key.value] = value
    return found


def _top_level(source: str) -> list[ast.stmt]:
    tree = parsed(source)
    return tree.body if tree is not None else []


def cases_computed(source: str) -> bool:
    """Whether the text defines `get_cases` without a literal name: which cases there are is known when it has run."""
    defined = any(isinstance(node, ast.FunctionDef) and node.name == "get_cases" for node in _top_level(source))
    return defined and not declared_cases(source)


def case_for(kind: str, cases: tuple[str, ...]) -> str | None:
    """The case for a device of `kind`: the interpreter has one of its own; None means the plain constants."""
    wanted = INTERPRETER_CASE if kind == "interpreter" else GPU_CASE
    return wanted if wanted in cases else None
