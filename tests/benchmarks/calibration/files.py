"""A file of JSON lines that grows line by line, so that whatever ends a run keeps what was done."""

from __future__ import annotations

import json
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tests.benchmarks.calibration.records import lines


class LineFile:
    """Appends; what the file already holds is known by kind."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._known: dict[str, set[tuple[str, str]]] = {}
        text = path.read_text(encoding="utf-8") if path.exists() else ""
        if text and not text.endswith("\n"):
            text = text[: text.rfind("\n") + 1]  # a writer was stopped in the middle of its last line
            path.write_text(text, encoding="utf-8")
        for _, body in lines(path) if text else ():
            self._remember(body)
        self._file = path.open("a", encoding="utf-8")

    def known(self, kind: str) -> set[tuple[str, str]]:
        """Id and digest of every record of that kind."""
        return self._known.get(kind, set())

    def add(self, body: dict[str, Any]) -> None:
        self._file.write(json.dumps(body, separators=(",", ":")) + "\n")
        self._file.flush()
        self._remember(body)

    def _remember(self, body: dict[str, Any]) -> None:
        self._known.setdefault(str(body.get("kind")), set()).add((str(body.get("id")), str(body.get("digest"))))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()
