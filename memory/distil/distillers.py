"""From one failure to a lesson: what a distiller is given and answers, by the table of known errors and by a model.

The table costs nothing and gives the same answer always; libraries tell their names. The reply of a model is data:
parsed, checked, refused.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import cache
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from typing import Any, Protocol

from django.conf import settings
from django.template import Context, Engine
from packaging.version import InvalidVersion, Version

from adaexplore_site.core.llm import Completion, LLMError, Message
from adaexplore_site.core.text import fenced, one_line
from judge.libraries.names import names_document, names_kept
from judge.values import JudgeError, Verdict
from memory.patterns.fingerprints import fingerprint
from memory.patterns.known import Match
from memory.patterns.messages import cause_of
from memory.patterns.table import OF_REPLIES, match_of
from memory.prompting.scopes import Scope
from memory.rules.wording import claim_check

ANYWHERE = Scope()


@dataclass(frozen=True)
class Facts:
    """One failure: what the judge said of it, the kernel, and where it ran ("3.7.1", "sm_90"; empty: not known)."""

    verdict: str
    stage: str
    reason: str
    message: str
    source: str = ""
    triton: str = ""
    arch: str = ""
    torch: str = ""

    @property
    def kind(self) -> str:
        return self.reason or self.verdict


@dataclass(frozen=True)
class Lesson:
    """`outcome` is "rule" with a claim, else "nothing" or "unfit" with `why`. `origin`: "pattern" or "model"."""

    outcome: str
    why: str = ""
    claim: str = ""
    pattern: str = ""
    origin: str = "pattern"
    operator: str = ""
    scope: Scope = ANYWHERE
    call: Mapping[str, Any] | None = None  # what asking a model for it has used: tokens_in, tokens_out, usd

    def __post_init__(self) -> None:
        if self.outcome not in ("rule", "nothing", "unfit"):
            raise ValueError(f"unknown outcome {self.outcome!r}")
        if (self.outcome == "rule") != bool(self.claim) or (self.outcome == "rule") == bool(self.why):
            raise ValueError("a rule has a claim, everything else a reason")


class DistilLater(Exception):
    """The model gave no answer. The failure stays for another time; the message says why."""


class Library(Protocol):
    """Knows which names torch and Triton have."""

    def doubt(self, owner: str, name: str, facts: Facts) -> str:
        """Why it is not sure that `owner` ("triton.language") has no `name`; empty when it is.

        Raises DistilLater when that cannot be answered now.
        """
        ...


class NoLibrary:
    """No library to ask: every name is in doubt."""

    def doubt(self, owner: str, name: str, facts: Facts) -> str:
        return "It is not known whether the installed library has that name."


class Distiller(Protocol):
    """Gives each failure its lesson. The same facts give the same lesson; a model may word it differently."""

    def distil(self, facts: Facts) -> Lesson:
        """Raises DistilLater when nothing can be said now."""
        ...


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


TEMPLATE = Path(__file__).resolve().parents[2] / "templates" / "prompts" / "distil.txt"
SOURCE_CHARS = 24_000
MESSAGE_CHARS = 2_000
_KEYS = {"learn", "claim", "why"}
Bill = Callable[[Completion], Mapping[str, Any]]  # model, tokens_in, tokens_out and usd of a call; None: not known


class Chat(Protocol):
    """What is needed of adaexplore_site.core.llm.ChatClient."""

    def complete(self, messages: list[Message], **request: Any) -> Completion: ...


class BadAnswer(ValueError):
    """The reply is not what was asked for. The message says what is wrong with it."""


@dataclass
class Spent:
    """Calls of the model so far. Those whose tokens or price are unknown are counted separately."""

    calls: int = 0
    tokens: int = 0
    untold: int = 0
    usd: Decimal = Decimal(0)
    unpriced: int = 0


class ModelDistiller:
    """Known errors by the table, everything else by one request to the model."""

    def __init__(self, client: Chat, library: Library | None = None, bill: Bill | None = None) -> None:
        self._client, self._bill = client, bill or told_by
        self._table = TableDistiller(library)
        self.spent = Spent()

    def distil(self, facts: Facts) -> Lesson:
        """Raises DistilLater when the endpoint gives no answer."""
        if not self.asks(facts):
            return self._table.distil(facts)
        try:
            answer = self._client.complete([{"role": "user", "content": prompt_of(facts)}])
        except LLMError as error:
            raise DistilLater(one_line(str(error))) from None
        call = self._bill(answer)
        self._count(call)
        try:
            lesson = read_answer(answer, facts)
        except BadAnswer as error:
            lesson = Lesson("nothing", why=one_line(f"The model's answer cannot be used: {error}."), origin="model")
        return replace(lesson, call=call)

    @staticmethod
    def asks(facts: Facts) -> bool:
        """Whether the model is asked about this failure, which costs something."""
        known = facts.kind.startswith(OF_REPLIES) or match_of(facts.kind, facts.message) is not None
        return bool(facts.message.strip()) and not (known or unfit_why(facts) or own_attribute(facts))

    def _count(self, call: Mapping[str, Any]) -> None:
        self.spent.calls += 1
        if call["tokens_in"] is None or call["tokens_out"] is None:
            self.spent.untold += 1
        else:
            self.spent.tokens += call["tokens_in"] + call["tokens_out"]
        if call["usd"] is None:
            self.spent.unpriced += 1
        else:
            self.spent.usd += Decimal(call["usd"])


def told_by(answer: Completion) -> dict[str, Any]:
    """What the endpoint itself says of a call, as plain JSON; None for what it did not tell."""
    usd = None if answer.price_usd is None else str(answer.price_usd)
    return {"model": answer.model, "tokens_in": answer.tokens_in, "tokens_out": answer.tokens_out, "usd": usd}


def prompt_of(facts: Facts) -> str:
    """The request. Whatever a stranger wrote stands inside a fence."""
    common = fingerprint(facts.stage, facts.kind, facts.message)
    values = {
        "verdict": one_line(facts.verdict),
        "stage": one_line(facts.stage),
        "reason": one_line(facts.kind),
        "cause": fenced(common.text),
        "message": fenced(facts.message, limit=MESSAGE_CHARS),
        "source": fenced(facts.source, "python", SOURCE_CHARS) if facts.source else "",
        "triton": one_line(facts.triton),
        "arch": one_line(facts.arch),
    }
    template = Engine(autoescape=False).from_string(_text())
    return template.render(Context(values, autoescape=False)).strip() + "\n"


def template_name() -> str:
    """The prompt's file with the hash of its contents."""
    return f"{TEMPLATE.name}@{hashlib.sha256(_text().encode()).hexdigest()[:12]}"


def read_answer(answer: Completion, facts: Facts) -> Lesson:
    """The lesson in a reply. Raises BadAnswer."""
    if answer.cut_off or answer.refusal:
        raise BadAnswer("it was cut off or refused")
    try:
        found = json.loads(answer.text.strip())
    except (ValueError, RecursionError):
        raise BadAnswer("it is not the JSON object that was asked for") from None
    if not isinstance(found, dict) or not set(found) <= _KEYS or not isinstance(found.get("learn"), bool):
        raise BadAnswer("it is not the JSON object that was asked for")
    if not all(isinstance(found.get(name, ""), str) for name in ("claim", "why")):
        raise BadAnswer("its claim or reason is no text")
    if not found["learn"]:
        why = one_line(found.get("why", "")) or "The model gave no reason."
        return Lesson("nothing", why=why, origin="model")
    claim = one_line(found.get("claim", ""), 1000)
    why_not = claim_check(claim, source=facts.source, message=facts.message)
    if why_not:
        raise BadAnswer(why_not)
    return Lesson("rule", claim=claim, origin="model")


@cache
def _text() -> str:
    return TEMPLATE.read_text(encoding="utf-8")
