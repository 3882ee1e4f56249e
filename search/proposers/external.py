"""Proposers that answer from outside: a model's endpoint, a person, a recording."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from decimal import Decimal
from typing import Any, NoReturn, Protocol

from adaexplore_site.core.llm import ChatClient, Completion, LLMError, Message
from adaexplore_site.core.text import escaped as storable
from search.proposers.exchange import build_prompt, build_repair, fenced_blocks, has_patches, parse_reply
from search.proposers.protocol import Call, ProposerError, Reply, Task, WaitingForPerson

# Run options that are passed on to the endpoint as they are.
REQUEST_OPTIONS = ("temperature", "top_p", "max_tokens", "max_completion_tokens", "reasoning_effort")


PriceOf = Callable[[str, int, int], Decimal | None]


def unpriced(model: str, tokens_in: int, tokens_out: int) -> Decimal | None:
    """No price is known."""
    return None


class OpenAIProposer:
    """One model behind one endpoint. Every request is recorded as a Call, the failed one as well."""

    name = "openai"

    def __init__(self, client: ChatClient, price: PriceOf = unpriced) -> None:
        """`price` gives the dollars of (model, tokens in, tokens out), None where it is not known."""
        self._client = client
        self._price = price

    def propose(self, task: Task) -> Reply:
        """One reply; at most two requests. Raises ProposerError when the endpoint gives no usable answer."""
        prompt = build_prompt(task)
        messages = prompt.messages()
        answer, calls = self._ask(task, messages, prompt.text, prompt.template, ())
        reply = _read(task, answer)
        if reply.reason not in {"proposal.patch_mismatch", "proposal.bad_patch"}:
            return replace(reply, calls=calls)
        repair = build_repair(task, reply.message)
        messages = [
            *messages,
            {"role": "assistant", "content": storable(answer.text)},
            {"role": "user", "content": repair.user},
        ]
        answer, calls = self._ask(task, messages, repair.user, repair.template, calls)
        return replace(_read(task, answer), calls=calls)

    def _ask(
        self, task: Task, messages: list[Message], prompt: str, template: str, calls: tuple[Call, ...]
    ) -> tuple[Completion, tuple[Call, ...]]:
        """The completion, and `calls` with this one added."""
        client = self._client.for_model(str(task.options.get("model") or ""))
        try:
            answer = client.complete(messages, **request_options(task.options))
        except LLMError as error:
            message = str(error) if error.attempts == 1 else f"{error} (after {error.attempts} attempts)"
            call = Call(
                prompt=prompt,
                reply=storable(error.partial),
                error=storable(message),
                model=client.endpoint.model,
                template=template,
            )
            raise ProposerError(storable(message), permanent=error.permanent, calls=(*calls, call)) from None
        price = answer.price_usd
        if price is None and answer.tokens_in is not None and answer.tokens_out is not None:
            price = self._price(client.endpoint.model, answer.tokens_in, answer.tokens_out)
        call = Call(
            prompt=prompt,
            reply=storable(answer.text or answer.refusal),
            error="" if answer.text else f"no text (finish reason: {answer.finish_reason})",
            model=storable(answer.model),
            template=template,
            tokens_in=answer.tokens_in,
            tokens_out=answer.tokens_out,
            price_usd=price,
            latency_ms=answer.latency_ms,
        )
        return answer, (*calls, call)


def request_options(options: dict[str, Any]) -> dict[str, Any]:
    """The part of a run's options that goes into the request."""
    return {name: options[name] for name in REQUEST_OPTIONS if options.get(name) is not None}


def _read(task: Task, answer: Completion) -> Reply:
    """A cut-off reply is never used, even if it happens to hold whole patches: more may have been meant."""
    if answer.cut_off:
        tokens = f" after {answer.tokens_out} tokens" if answer.tokens_out is not None else ""
        return Reply(
            reason="proposal.cut_off",
            message=f"The reply was cut off{tokens} at the endpoint's length limit: allow longer replies (max_tokens).",
        )
    if answer.refusal or answer.finish_reason == "content_filter":
        return Reply(
            reason="proposal.refused", message=storable(answer.refusal, 1000) or "The endpoint filtered the reply."
        )
    return parse_reply(task, answer.text)


class ManualProposer:
    """A person, or another program through the page's form, writes the reply."""

    name = "manual"

    def propose(self, task: Task) -> NoReturn:
        """Always raises WaitingForPerson with the same prompt a model would get."""
        prompt = build_prompt(task)
        raise WaitingForPerson(Call(prompt=prompt.text, model="person", template=prompt.template))


class RecordedNode(Protocol):
    """What `recording_of` reads of a node row."""

    number: int
    source: str
    summary: str
    reason: str
    message: str


class RecordedProposer:
    """Deterministic: the same recording and node number give the same reply."""

    name = "recorded"

    def propose(self, task: Task) -> Reply:
        """The recorded reply; a Reply with reason "proposal.not_recorded" when there is none for this node."""
        entry = _entry(task.options.get("replies"), task.number)
        text = entry if isinstance(entry, str) else ""
        call = Call(reply=storable(text), model="recorded")
        reply = _reply(task, entry)
        return Reply(reply.source, reply.summary, reply.reason, reply.message, calls=(call,))


def recording_of(nodes: Iterable[RecordedNode]) -> dict[str, dict[str, str]]:
    """The recording of a stored run: node number -> entry. The root and steps that are still open are left out."""
    recording = {}
    for node in nodes:
        if node.number and node.source:
            recording[str(node.number)] = {"source": node.source, "summary": node.summary}
        elif node.number and node.reason:
            recording[str(node.number)] = {"reason": node.reason, "message": node.message}
    return recording


def _entry(recording: object, number: int) -> object:
    if isinstance(recording, dict):
        return recording.get(str(number), recording.get(number))
    if isinstance(recording, list) and 0 < number <= len(recording):
        return recording[number - 1]
    return None


def _reply(task: Task, entry: object) -> Reply:
    if isinstance(entry, dict):
        return _from_row(entry)
    if not isinstance(entry, str):
        return Reply(reason="proposal.not_recorded", message=f"The recording holds no reply for node {task.number}.")
    blocks, _, unclosed = fenced_blocks(entry)
    if blocks or unclosed or has_patches(entry) or not entry.strip():
        return parse_reply(task, entry)
    return Reply(source=storable(entry))


def _from_row(entry: dict[str, Any]) -> Reply:
    source = entry.get("source")
    if isinstance(source, str) and source:
        return Reply(source=storable(source, len(source) + 1), summary=str(entry.get("summary") or "")[:200])
    reason = str(entry.get("reason") or "proposal.no_code")[:60]
    return Reply(reason=reason, message=str(entry.get("message") or "The recorded step gave no kernel."))
