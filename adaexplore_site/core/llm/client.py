"""Calls of a language model over the OpenAI protocol."""

from __future__ import annotations

import logging
import random
import re
import ssl
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from functools import cache
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit, urlunsplit

import httpx2
from django.conf import settings
from django.utils.translation import gettext

from adaexplore_site.core.llm.faults import (
    Bounds,
    LLMError,
    connection_fault,
    protocol_fault,
    scrub,
    status_fault,
    timeout_fault,
)

if TYPE_CHECKING:  # to load it takes a quarter of the start of every process, and few of them ask a model
    import openai

log = logging.getLogger(__package__)

Message = dict[str, str]  # {"role": "system" | "user" | "assistant", "content": text}

OPENAI_URL = "https://api.openai.com/v1"


@dataclass(frozen=True)
class Endpoint:
    """Where to ask. An empty `base_url` is OpenAI itself; an empty key suits local servers that want none."""

    model: str
    base_url: str = ""
    api_key: str = field(default="", repr=False)
    timeout_s: float = 180.0  # the whole answer, connection included
    stream: bool = True

    @property
    def url(self) -> str:
        return self.base_url or OPENAI_URL

    @property
    def shown(self) -> str:
        """The address for messages: without user name, password and query, where people put secrets."""
        parts = urlsplit(self.url)
        return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))

    def missing(self) -> str:
        """Why this endpoint cannot be asked, as a sentence that says what to set; empty when it can."""
        if not self.api_key and not self.base_url:
            return gettext(
                "Set LLM_API_KEY and LLM_MODEL (and LLM_BASE_URL for an endpoint other than OpenAI's), then restart."
            )
        if not self.model:
            return gettext("Set LLM_MODEL to the name of the model to ask, then restart.")
        if self.base_url and not _is_url(self.base_url):
            return gettext("LLM_BASE_URL must start with http:// or https://, for example https://api.openai.com/v1.")
        if re.search(r"[^\x21-\x7e]", self.api_key):
            return gettext("LLM_API_KEY holds a blank, a line end or a non-ASCII character: copy the key again.")
        return ""


def _is_url(text: str) -> bool:
    try:
        parts = urlsplit(text)
        return parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False


@dataclass(frozen=True)
class Retry:
    """Exponential back-off with full jitter: after attempt k wait up to min(cap, base * 2^(k-1)) seconds."""

    attempts: int = 4
    base_s: float = 1.0
    cap_s: float = 20.0
    max_retry_after_s: float = 60.0  # a longer wait is handed back to the caller instead of slept

    def wait_s(self, error: LLMError, attempt: int, rng: random.Random) -> float | None:
        """Seconds to wait after failed attempt number `attempt` (from 1); None to give up."""
        if not error.again or attempt >= self.attempts:
            return None
        jitter = rng.uniform(0, min(self.cap_s, self.base_s * 2 ** (attempt - 1)))
        if error.retry_after_s is None:
            return jitter
        if error.retry_after_s > self.max_retry_after_s:
            return None
        return error.retry_after_s + jitter / 4  # a herd told the same second must not come back in it


@dataclass(frozen=True)
class Completion:
    """One answer. Counts the endpoint did not send are None; `finish_reason` "length" means it was cut off."""

    text: str
    model: str
    finish_reason: str
    refusal: str = ""
    tokens_in: int | None = None
    tokens_out: int | None = None
    price_usd: Decimal | None = None  # unknown
    latency_ms: float = 0.0  # of the attempt that succeeded
    attempts: int = 1

    @property
    def cut_off(self) -> bool:
        return self.finish_reason == "length"


def endpoint_from_settings() -> Endpoint:
    """The endpoint of LLM_BASE_URL, LLM_API_KEY, LLM_MODEL, LLM_TIMEOUT_S and LLM_STREAM."""
    return Endpoint(
        model=settings.LLM_MODEL,
        base_url=settings.LLM_BASE_URL,
        api_key=settings.LLM_API_KEY,
        timeout_s=float(settings.LLM_TIMEOUT_S),
        stream=bool(settings.LLM_STREAM),
    )


class ChatClient:
    """Asks one endpoint. The source of jitter, sleep and clock (monotonic seconds) are passed in."""

    def __init__(
        self,
        endpoint: Endpoint,
        *,
        rng: random.Random,
        retry: Retry = Retry(),
        sleep: Callable[[float], None] = time.sleep,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.endpoint = endpoint
        self._rng = rng
        self._retry = retry
        self._sleep = sleep
        self._clock = clock

    def for_model(self, model: str) -> ChatClient:
        """This client, or one like it that asks for `model` instead."""
        if not model or model == self.endpoint.model:
            return self
        endpoint = replace(self.endpoint, model=model)
        return ChatClient(endpoint, rng=self._rng, retry=self._retry, sleep=self._sleep, clock=self._clock)

    def complete(self, messages: Sequence[Message], **extra: Any) -> Completion:
        """One answer to `messages`; `extra` goes into the request as it is (temperature, max_tokens, ...).

        Raises LLMError: permanent for a wrong key, an unknown model or a refused request; otherwise transient, once
        the retries are used up.
        """
        why = self.endpoint.missing()
        if why:
            raise LLMError(why, True)
        attempt = 1
        while True:
            answer = self._attempt(messages, extra)
            if isinstance(answer, Completion):
                return replace(answer, attempts=attempt)
            wait = self._retry.wait_s(answer, attempt, self._rng)
            if wait is None:
                answer.attempts = attempt
                raise answer
            log.warning("%s: attempt %d of %d, next in %.1f s", answer.brief, attempt, self._retry.attempts, wait)
            self._sleep(wait)
            attempt += 1

    def _attempt(self, messages: Sequence[Message], extra: dict[str, Any], usage: bool = True) -> Completion | LLMError:
        """One request. Faults are returned: raised here, they would carry the library's own, headers included."""
        import openai

        started = self._clock()
        pieces: list[str] = []
        try:
            with self._client(Bounds(self._clock, started + self.endpoint.timeout_s)) as client:
                answer = self._ask(client, messages, extra, usage, pieces)
        except openai.APIStatusError as error:
            if usage and self.endpoint.stream and "stream_options" in str(error.body):
                return self._attempt(messages, extra, usage=False)  # an older server; it will not report usage
            answer = status_fault(error, self.endpoint.model, self.endpoint.shown)
        except openai.APITimeoutError:
            answer = timeout_fault(self.endpoint.timeout_s, "".join(pieces))
        except (openai.APIConnectionError, httpx2.HTTPError) as error:
            answer = connection_fault(error, self.endpoint.shown, "".join(pieces))
        except openai.APIError as error:  # an error event inside the stream
            answer = LLMError(f"{self.endpoint.shown} broke off: {error.message}", False, partial="".join(pieces))
        except (httpx2.InvalidURL, ValueError, RecursionError):  # the last one: JSON nested too deeply
            answer = protocol_fault(self.endpoint.shown)
        secret = self.endpoint.api_key
        if isinstance(answer, LLMError):
            return answer.scrubbed(secret)
        return replace(
            answer,
            text=scrub(answer.text, secret),
            refusal=scrub(answer.refusal, secret),
            model=scrub(answer.model or self.endpoint.model, secret)[:120],
            latency_ms=(self._clock() - started) * 1000,
        )

    def _client(self, bounds: Bounds) -> openai.OpenAI:
        import openai

        http = httpx2.Client(
            timeout=httpx2.Timeout(self.endpoint.timeout_s, connect=min(15.0, self.endpoint.timeout_s)),
            follow_redirects=False,  # a redirect could carry prompt and key to another address
            event_hooks={"response": [bounds.guard]},
            headers={"Accept-Encoding": "identity"},
            verify=_tls(),
        )
        return openai.OpenAI(
            api_key=self.endpoint.api_key or "none", base_url=self.endpoint.url, max_retries=0, http_client=http
        )

    def _ask(
        self, client: openai.OpenAI, messages: Sequence[Message], extra: dict[str, Any], usage: bool, pieces: list[str]
    ) -> Completion | LLMError:
        request: dict[str, Any] = {"model": self.endpoint.model, "messages": list(messages), **extra}
        if not self.endpoint.stream:
            return _read_plain(client.chat.completions.create(**request)) or protocol_fault(self.endpoint.shown)
        if usage:
            request["stream_options"] = {"include_usage": True}
        chunks = client.chat.completions.create(stream=True, **request)
        answer = _read_stream(chunks, pieces)
        if answer is None and pieces:
            return LLMError(f"The answer of {self.endpoint.shown} was cut off.", False, partial="".join(pieces))
        return answer or protocol_fault(self.endpoint.shown)


@cache
def _tls() -> ssl.SSLContext:
    """Reading the certificate store costs 0.2 s of CPU: once per process."""
    return httpx2.create_ssl_context()


def _read_plain(answer: object) -> Completion | None:
    """The completion in a plain answer; None when it is something else (the library decodes leniently)."""
    choice = _first_choice(answer)
    message = getattr(choice, "message", None)
    if message is None:
        return None
    finish = _text(getattr(choice, "finish_reason", None)) or "stop"
    return _completion(
        answer, _text(getattr(message, "content", None)), _text(getattr(message, "refusal", None)), finish, answer
    )


def _read_stream(chunks: Iterable[object], pieces: list[str]) -> Completion | None:
    """Collect deltas into `pieces`. None when the stream ends without a finish reason: then it was cut off."""
    finish, refusal, counted, last = "", "", None, None
    for chunk in chunks:
        last = chunk
        counted = chunk if getattr(chunk, "usage", None) else counted
        choice = _first_choice(chunk)
        delta = getattr(choice, "delta", None)
        pieces.append(_text(getattr(delta, "content", None)))
        refusal += _text(getattr(delta, "refusal", None))
        finish = _text(getattr(choice, "finish_reason", None)) or finish
    return _completion(last, "".join(pieces), refusal, finish, counted) if finish else None


def _completion(answer: object, text: str, refusal: str, finish: str, counted: object) -> Completion:
    usage = getattr(counted, "usage", None)
    return Completion(
        text=text,
        model=_text(getattr(answer, "model", None)),
        finish_reason=finish,
        refusal=refusal,
        tokens_in=_count(getattr(usage, "prompt_tokens", None)),
        tokens_out=_count(getattr(usage, "completion_tokens", None)),
    )


def _first_choice(answer: object) -> object:
    choices = getattr(answer, "choices", None)
    return choices[0] if isinstance(choices, list) and choices else None


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _count(value: object) -> int | None:
    return value if isinstance(value, int) and 0 <= value < 2**31 else None
