"""Triton kernels in a candidate's text, read without running it. Standard library only."""

from __future__ import annotations

import ast

from judge.values.parsing import parse_module

MOST = 200


def defined_kernels(source: str) -> dict[str, list[str]]:
    """Name of each function under a `jit` decorator -> the names it uses. Text that does not parse defines none."""
    try:
        tree = parse_module(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return {}
    found: dict[str, list[str]] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and any(_is_jit(decorator) for decorator in node.decorator_list):
            used = {item.id for item in ast.walk(node) if isinstance(item, ast.Name)}
            found[node.name] = sorted(used - {node.name})
            if len(found) >= MOST:
                break
    return {name: [other for other in used if other in found] for name, used in found.items()}


def _is_jit(decorator: ast.expr) -> bool:
    """`jit`, `triton.jit`, `triton.jit(...)`."""
    if isinstance(decorator, ast.Call):
        decorator = decorator.func
    name = decorator.attr if isinstance(decorator, ast.Attribute) else getattr(decorator, "id", "")
    return name == "jit"
