"""Which configuration an autotuner took, passed from one process of a candidate to the next. Standard library only.

The file lies in the child's private folder and was written by a candidate's process: it is a claim about nothing but
that candidate's own speed.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from judge.bench.processes.plain_files import read_plain

NAME = "choices.json"
MOST_BYTES, MOST_ROWS, MOST_CHARS = 1 << 18, 500, 2000
Choice = dict[str, str]


def read_choices(folder: Path) -> list[Choice]:
    """Rows of kernel, key and configuration; empty when there is no well-formed file."""
    try:
        rows = json.loads(read_plain(folder / NAME, MOST_BYTES) or b"")
    except (OSError, ValueError, RecursionError):
        return []
    if not isinstance(rows, list) or len(rows) > MOST_ROWS or not all(map(_is_choice, rows)):
        return []
    return rows


def write_choices(folder: Path, choices: list[Choice]) -> None:
    (folder / NAME).write_text(json.dumps(choices))


def _is_choice(row: Any) -> bool:
    return (
        isinstance(row, dict)
        and set(row) == {"kernel", "key", "config"}
        and all(type(text) is str and len(text) <= MOST_CHARS for text in row.values())
    )
