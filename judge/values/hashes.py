"""Hashes of source text. Standard library only."""

from __future__ import annotations

import ast
import hashlib


def text_hash(source: str) -> str:
    """sha256 of the text with uniform line ends."""
    return hashlib.sha256(source.replace("\r\n", "\n").encode()).hexdigest()


def canonical_hash(source: str) -> str:
    """sha256 that ignores comments, docstrings and layout; names are kept. Text that does not parse hashes as text."""
    try:
        tree = ast.parse(source)
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
    return hashlib.sha256(ast.dump(tree).encode()).hexdigest()
