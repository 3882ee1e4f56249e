"""Figures of the tree by reading files only: `python -m tests.house_figures [--root PATH] [--json]`.

It imports nothing of the project, so one script measures any checkout, before and after a restructuring.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path, PurePosixPath
from statistics import median, quantiles
from typing import Any

from pygments.lexers import get_lexer_by_name
from pygments.token import Comment

APPS = ("adaexplore_site", "judge", "memory", "search")
PRODUCT = (*APPS, "templates", "static/css", "static/js", "manage.py")
LEXERS = {".py": "python", ".html": "html+django", ".txt": "text", ".js": "javascript", ".css": "css"}
KINDS = {".py": "Python", ".html": "templates", ".txt": "templates", ".js": "JavaScript", ".css": "CSS"}
# Text that the judge judges, and samples: not code of the product. The last parts of their paths, wherever they live.
CORPORA = (
    *(("selftest", name) for name in ("exploits", "honest", "mutations", "aa", "problems")),
    ("comparison", "candidates"),
    ("judge", "samples"),
)
BENCHMARKS = "tests/benchmarks"
TOP_FLOOR = {"__init__", "apps", "urls", "tasks", "models", "admin"}
NO_ROOMS = {"migrations", "commands", "management", "templatetags"}
SKIPPED = {"__pycache__", "node_modules"}
LONG_FILE = 500
ROOM = (3, 8)  # files of a room, `__init__` aside


@dataclass(frozen=True)
class Source:
    """One file. `path` is relative to the root."""

    path: PurePosixPath
    text: str

    @property
    def app(self) -> str:
        """The first part of the path: an app, templates, static, manage.py or tests."""
        return self.path.parts[0]

    @property
    def python(self) -> bool:
        return self.path.suffix == ".py"

    @property
    def corpus(self) -> bool:
        """Whether it lies in a folder of corpora."""
        folders = self.path.parts[:-1]
        return any(pair in CORPORA for pair in pairwise(folders))

    @property
    def migration(self) -> bool:
        return "migrations" in self.path.parts

    @property
    def lines(self) -> int:
        """Physical lines, as `wc -l` counts them, and a last one without its newline."""
        return len(self.text.splitlines())

    @cached_property
    def code_lines(self) -> int:
        """Lines that hold more than blanks and comments. Docstrings count as code."""
        lexer = get_lexer_by_name(LEXERS[self.path.suffix], stripnl=False, ensurenl=False)
        found, line = set(), 1
        for kind, text in lexer.get_tokens(self.text):
            parts = text.split("\n")
            if kind not in Comment or kind in Comment.Preproc:  # {% ... %} of a template is no comment
                found |= {line + place for place, part in enumerate(parts) if part.strip()}
            line += len(parts) - 1
        return len(found)

    @cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.text, str(self.path))


def sources(root: Path, places: Iterable[str]) -> Iterator[Source]:
    """Files of the kinds that count, below `places`, in the order of their paths."""
    for place in places:
        start = root / place
        for path in [start] if start.is_file() else sorted(_files(start)):
            if path.suffix in LEXERS:
                yield Source(PurePosixPath(path.relative_to(root).as_posix()), path.read_text(encoding="utf-8"))


def _files(folder: Path) -> Iterator[Path]:
    for here, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if name not in SKIPPED]
        yield from (Path(here) / name for name in names)


def figures(root: Path) -> dict[str, Any]:
    """All figures of a checkout as JSON values. Lines are numbers of lines; lengths are lines of functions."""
    everything = list(sources(root, PRODUCT))
    code = [one for one in everything if not one.corpus and not one.migration]
    modules = [one for one in code if one.python]
    return {
        "lines": {
            "by app": _by(everything, lambda one: one.app),
            "by kind": _by(everything, lambda one: KINDS[one.path.suffix]),
        },
        "python": _python(modules),
        "loose modules": {app: _loose(modules, app) for app in APPS},
        "rooms": _rooms(modules),
        "files over 500 lines": _largest([one for one in code if one.lines > LONG_FILE]),
        "tests": _tests(root, sum(one.lines for one in code)),
    }


def _by(found: list[Source], key: Any) -> dict[str, dict[str, int]]:
    groups: dict[str, list[Source]] = {}
    for one in found:
        groups.setdefault(key(one), []).append(one)
    return {name: _lines(group) for name, group in sorted(groups.items())} | {"all": _lines(found)}


def _lines(found: list[Source]) -> dict[str, int]:
    code = [one for one in found if not one.corpus and not one.migration]
    return {
        "files": len(code),
        "lines": sum(one.lines for one in code),
        "code lines": sum(one.code_lines for one in code),
        "with corpora and migrations": sum(one.lines for one in found),
        "of them corpora": sum(one.lines for one in found if one.corpus),
        "of them migrations": sum(one.lines for one in found if one.migration),
    }


def _python(modules: list[Source]) -> dict[str, Any]:
    nodes = [(one, node) for one in modules for node in ast.walk(one.tree)]
    functions = [(one, node) for one, node in nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    lengths = sorted((_length(node), f"{one.path}:{node.lineno} {node.name}") for one, node in functions)
    handlers = [node for _, node in nodes if isinstance(node, ast.ExceptHandler)]
    return {
        "modules": len(modules),
        "functions": len(functions),
        "classes": sum(isinstance(node, ast.ClassDef) for _, node in nodes),
        "function length": {
            "median": median(length for length, _ in lengths),
            "p95": quantiles([length for length, _ in lengths], n=20)[-1],
            "max": lengths[-1][0],
            "longest": [[length, where] for length, where in reversed(lengths[-10:])],
        },
        "try": sum(isinstance(node, ast.Try | ast.TryStar) for _, node in nodes),
        "broad excepts": sum(map(_broad, handlers)),
    }


def _length(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Lines from `def` to the end of the body; decorators do not count."""
    return (node.end_lineno or node.lineno) - node.lineno + 1


def _broad(handler: ast.ExceptHandler) -> bool:
    """A bare `except`, or one that names Exception or BaseException."""
    if handler.type is None:
        return True
    kinds = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    return any(isinstance(kind, ast.Name) and kind.id in {"Exception", "BaseException"} for kind in kinds)


def _loose(modules: list[Source], app: str) -> list[str]:
    """Modules on the app's top floor beyond those that Django expects there."""
    found = [one.path.stem for one in modules if one.path.parent == PurePosixPath(app)]
    return sorted(set(found) - TOP_FLOOR)


def _rooms(modules: list[Source]) -> dict[str, Any]:
    """Folders that hold modules, the top floors and Django's own folders aside."""
    sizes = Counter(
        str(one.path.parent)
        for one in modules
        if one.path.stem != "__init__" and len(one.path.parts) > 2 and not NO_ROOMS & set(one.path.parts)
    )
    counts = list(sizes.values())
    least, most = ROOM
    return {
        "rooms": len(counts),
        "files": {"median": median(counts), "min": min(counts), "max": max(counts)},
        f"under {least} files": {name: size for name, size in sorted(sizes.items()) if size < least},
        f"over {most} files": {name: size for name, size in sorted(sizes.items()) if size > most},
    }


def _largest(found: list[Source]) -> dict[str, int]:
    return {str(one.path): one.lines for one in sorted(found, key=lambda one: (-one.lines, one.path))}


def _tests(root: Path, product: int) -> dict[str, Any]:
    """Tests beside the product's lines; tools under tests/benchmarks are neither."""
    found = [one for one in sources(root, ["tests"]) if not one.corpus]
    tools = [one for one in found if one.path.is_relative_to(BENCHMARKS)]
    lines = sum(one.lines for one in found) - sum(one.lines for one in tools)
    return {
        "files": len(found) - len(tools),
        "lines": lines,
        "code lines": sum(one.code_lines for one in found) - sum(one.code_lines for one in tools),
        "lines for one of the product": round(lines / product, 2),
        "benchmarks": {"files": len(tools), "lines": sum(one.lines for one in tools)},
    }


def text_of(found: dict[str, Any]) -> str:
    """The figures as indented text, tables for lines."""
    out: list[str] = []
    for title, rows in found["lines"].items():
        out += _table(title, rows)
    for title in ("python", "loose modules", "rooms", "files over 500 lines", "tests"):
        out += ["", title, *_indented(found[title], 1)]
    return "\n".join(out).lstrip("\n") + "\n"


def _table(title: str, rows: dict[str, dict[str, int]]) -> list[str]:
    heads = list(next(iter(rows.values())))
    out = ["", f"lines {title}", " " * 18 + "  ".join(heads)]
    for name, row in rows.items():
        out.append(f"  {name:<16}" + "  ".join(f"{row[head]:>{len(head)},}" for head in heads))
    return out


def _indented(found: Any, depth: int) -> Iterator[str]:
    pad = "  " * depth
    if isinstance(found, dict):
        for name, value in found.items():
            if isinstance(value, dict) or (value and isinstance(value, list) and isinstance(value[0], list)):
                yield f"{pad}{name}:" + ("" if value else " none")
                yield from _indented(value, depth + 1)
            elif isinstance(value, list):
                yield f"{pad}{name}: {len(value)}" + (f": {' '.join(value)}" if value else "")
            else:
                yield f"{pad}{name}: {value:,}"
    else:
        yield from (f"{pad}{' '.join(map(str, row))}" for row in found)


def main(arguments: list[str] | None = None) -> None:
    """Print the figures of one checkout."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--root", type=Path, default=Path(__file__).resolve().parent.parent)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(arguments)
    if not all((options.root / app).is_dir() for app in APPS):
        parser.error(f"{options.root} is no checkout of this project: it lacks one of {', '.join(APPS)}")
    found = figures(options.root)
    sys.stdout.write(json.dumps(found, indent=1) + "\n" if options.json else text_of(found))


if __name__ == "__main__":
    main()
