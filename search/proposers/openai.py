"""Proposer `openai`: asks a chat endpoint, reads the reply, and reports patches that do not match back to it once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from typing import Any

from adaexplore_site.core.llm import ChatClient, Completion, LLMError, Message
from search.proposers.prompts import build_prompt, build_repair
from search.proposers.protocol import Call, ProposerError, Reply, Task
from search.proposers.replies import parse_reply, storable

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
