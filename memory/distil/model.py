"""Distils with a model what the table of known errors cannot say. The reply is data: parsed, checked, refused."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any, Protocol

from django.template import Context, Engine

from adaexplore_site.core.llm import Completion, LLMError, Message
from adaexplore_site.core.text import fenced, one_line
from memory.distil.table import TableDistiller, own_attribute, unfit_why
from memory.distil.values import DistilLater, Facts, Lesson, Library
from memory.patterns.fingerprints import fingerprint
from memory.patterns.table import OF_REPLIES, match_of
from memory.rules.wording import claim_check

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
