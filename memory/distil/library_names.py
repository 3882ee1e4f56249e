"""Whether torch or Triton really lack a name that an error says they lack. A kernel words errors as it likes."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError
from pathlib import Path
from typing import Any

from django.conf import settings

from judge.libraries.names import names_document, names_kept
from judge.values import JudgeError
from memory.distil.values import DistilLater, Facts


class InstalledNames:
    """Asks the libraries that the kernel ran with where their names are kept here, else the installed ones.

    Without `ask` it starts no process: what nobody has listed yet is in doubt.
    """

    def __init__(self, folder: Path | None = None, *, ask: bool = True) -> None:
        self._folder, self._ask = folder or Path(settings.DATA_DIR), ask
        self._known: dict[tuple[str, str], dict[str, Any]] = {}  # by the versions that a kernel ran with

    def doubt(self, owner: str, name: str, facts: Facts) -> str:
        """Raises DistilLater when the libraries cannot be listed now."""
        document = self._document(facts)
        if document is None:
            return "The names of the installed torch and Triton have not been listed here yet."
        names = document["names"].get(owner)
        if names is None:
            return "The error names no module of torch or Triton whose names are known: it may be the candidate's own."
        if name not in names:
            return ""
        library = "torch" if owner.startswith("torch") else "triton"
        here, ran = document[library], facts.torch if library == "torch" else facts.triton
        what = f"{owner}.{name[:40]}"
        if ran and _plain(here) != _plain(ran):
            return f"{what} is in {library} {here} here; of {ran}, which the kernel ran with, nothing is known here."
        return f"{what} is in {library} {here}: the kernel has something of its own under that name."

    def _document(self, facts: Facts) -> dict[str, Any] | None:
        ran = (_plain(facts.torch), facts.triton)
        if ran in self._known:
            return self._known[ran]
        for document in names_kept(self._folder) if all(ran) else ():
            if (_plain(document["torch"]), document["triton"]) == ran:
                self._known[ran] = document
                return document
        try:
            return names_document(self._folder, ask=self._ask)
        except PackageNotFoundError:
            return None
        except JudgeError as error:
            raise DistilLater(str(error)) from None


def _plain(version: str) -> str:
    """Without the build: "2.13.0" of "2.13.0+cpu"."""
    return version.partition("+")[0]
