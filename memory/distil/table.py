"""Distils by the table of known errors: no model, no cost, the same answer always. Libraries tell their names."""

from __future__ import annotations

import re
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from typing import Any

from django.conf import settings
from packaging.version import InvalidVersion, Version

from judge.libraries.names import names_document, names_kept
from judge.values import JudgeError, Verdict
from memory.distil.values import DistilLater, Facts, Lesson, Library, NoLibrary
from memory.patterns.known import Match
from memory.patterns.messages import cause_of
from memory.patterns.table import match_of
from memory.prompting.scopes import Scope
from memory.rules.wording import claim_check


class InstalledNames:
    """Asks the libraries that the kernel ran with where their names are kept here, else the installed ones.

    Without `ask` it starts no process: names that were not listed yet are in doubt.
    """

    def __init__(self, folder: Path | None = None, *, ask: bool = True) -> None:
        self._folder, self._ask = folder or Path(settings.DATA_DIR), ask
        self._known: dict[tuple[str, str], dict[str, Any]] = {}  # by the versions that a kernel ran with

    def doubt(self, owner: str, name: str, facts: Facts) -> str:
        """Raises DistilLater when the libraries cannot be listed now."""
        document = self._document(facts)
        if document is None:
            return "The names of the installed torch and Triton have not been listed yet."
        names = document["names"].get(owner)
        if names is None:
            return "The error names no module of torch or Triton whose names are known: it may be the candidate's own."
        if name not in names:
            return ""
        library = "torch" if owner.startswith("torch") else "triton"
        here, ran = document[library], facts.torch if library == "torch" else facts.triton
        what = f"{owner}.{name[:40]}"
        if ran and _plain(here) != _plain(ran):
            return f"{what} is in {library} {here} here; the names of {ran}, which the kernel ran with, are unknown."
        return f"{what} is in {library} {here}: the kernel has its own object of that name."

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


OWN = "The attribute belongs to one of the candidate's own objects, so it says nothing about other kernels."
_OWN = re.compile(r"\bhas no attribute ['\"]|\bcannot import name ['\"]")
CHEATS = frozenset({Verdict.DISHONEST.value, Verdict.SUSPECT.value})
_MACHINE = {
    Verdict.TIMED_OUT.value: "Time ran out: the machine may have been busy.",
    Verdict.OUT_OF_MEMORY.value: "Memory ran out: another process may have held it.",
    Verdict.LOST.value: "A worker was lost: the kernel was not judged.",
    Verdict.CANCELLED.value: "It was cancelled: the kernel was not judged.",
    Verdict.REFUSED_PROBLEM.value: "The problem's own code failed, not the kernel.",
    Verdict.UNSUPPORTED.value: "The judge's device does not support it: the kernel may be correct on another device.",
}


def unfit_why(facts: Facts) -> str:
    """Why this failure must not teach, whatever is said of it; empty when it may."""
    if facts.verdict in CHEATS or facts.reason.startswith("tamper."):
        return "The kernel cheated, or its measured time is not plausible: it is no evidence."
    if facts.stage == "audit":
        return "The audit found it, and the audit's cases are kept secret."
    if facts.verdict in _MACHINE:
        return _MACHINE[facts.verdict]
    found = match_of(facts.kind, facts.message)
    return found.pattern.unfit if found is not None else ""


def own_attribute(facts: Facts) -> bool:
    """Whether an unknown error says that some object, none of a library's that the table knows, lacks an attribute."""
    return _OWN.search(cause_of(facts.message)) is not None


def _unknown_why(facts: Facts) -> str:
    if not facts.message.strip():
        return "There is no error message to learn from."
    return OWN if own_attribute(facts) else "It is not in the table of known errors."


class TableDistiller:
    """The table, and the library itself where a lesson says that it lacks a name."""

    def __init__(self, library: Library | None = None) -> None:
        self._library = library or NoLibrary()

    def distil(self, facts: Facts) -> Lesson:
        """Raises DistilLater when the library cannot be asked now."""
        why = unfit_why(facts)
        if why:
            return Lesson("unfit", why=why)
        found = match_of(facts.kind, facts.message)
        if found is None:
            return Lesson("nothing", why=_unknown_why(facts))
        return taught(found, facts, self._library)


def taught(found: Match, facts: Facts, library: Library) -> Lesson:
    """The lesson of a known error."""
    code = found.pattern.code
    if not found.claim:
        return Lesson("nothing", why=found.pattern.nothing, pattern=code)
    why = claim_check(found.claim)
    if why:
        return Lesson("nothing", why=f"The wording cannot be a rule: {why}."[:200], pattern=code)
    if found.missing is not None and (doubt := library.doubt(*found.missing, facts)):
        return Lesson("nothing", why=doubt[:200], pattern=code)
    return Lesson("rule", claim=found.claim, pattern=code, operator=found.operator, scope=scope_of(found, facts))


def scope_of(found: Match, facts: Facts) -> Scope:
    """Where the lesson is known to hold: this minor version of Triton, this architecture, or anywhere."""
    triton = minor_range(facts.triton) if found.pattern.versioned else ""
    return Scope(arch=facts.arch if found.pattern.by_arch else "", triton=triton)


def minor_range(version: str) -> str:
    """ ">=3.7,<3.8" for "3.7.1"; empty for what is no version."""
    try:
        found = Version(version)
    except InvalidVersion:
        return ""
    return f">={found.major}.{found.minor},<{found.major}.{found.minor + 1}"
