"""Hashes of source text. Standard library only."""

from __future__ import annotations

import ast
import hashlib

from judge.values.parsing import parse_module

UNTOLD = frozenset({"kind", "type_comment", "type_ignores"})  # how a text is written, not what it says


def text_hash(source: str) -> str:
    """sha256 of the text with uniform line ends."""
    return hashlib.sha256(source.replace("\r\n", "\n").encode()).hexdigest()


def canonical_hash(source: str) -> str:
    """sha256 that ignores comments, docstrings and layout; names are kept. Text that does not parse hashes as text.

    The same on every version of Python that reads the text alike: a GPU's host may have another one than this machine.
    """
    try:
        tree = parse_module(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return text_hash(source)
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and body:
            first = body[0]
            if (
                isinstance(first, ast.Expr)
                and isinstance(first.value, ast.Constant)
                and isinstance(first.value.value, str)
            ):
                node.body = body[1:] or [ast.Pass()]
    try:
        return hashlib.sha256(_told(tree).encode()).hexdigest()
    except RecursionError:
        return text_hash(source)


def _told(value: object) -> str:
    """Like ast.dump, which differs between versions: fields in order of their names, empty ones left out."""
    if isinstance(value, ast.AST):
        fields = {name: one for name, one in ast.iter_fields(value) if name not in UNTOLD and one is not None}
        if isinstance(value, ast.JoinedStr):
            fields["values"] = _joined(value.values)
        told = ",".join(f"{name}={_told(fields[name])}" for name in sorted(fields) if fields[name] != [])
        return f"{type(value).__name__}({told})"
    if isinstance(value, list):
        return f"[{','.join(map(_told, value))}]"
    if type(value) is int:
        return hex(value)  # repr refuses very long ones
    return ascii(value)  # which characters repr shows as they are depends on the version's Unicode


def _joined(parts: list[ast.expr]) -> list[ast.expr]:
    """Parts of an f-string with neighbouring pieces of text as one: versions cut them differently."""
    found: list[ast.expr] = []
    for part in parts:
        if isinstance(part, ast.Constant) and part.value == "":
            continue
        last = found[-1] if found else None
        if isinstance(part, ast.Constant) and isinstance(last, ast.Constant):
            found[-1] = ast.Constant(str(last.value) + str(part.value))
        else:
            found.append(part)
    return found
