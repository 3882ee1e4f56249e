"""What the failures of a language model's endpoint mean, and the limits of its answers."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING
from urllib.parse import quote

import httpx2

if TYPE_CHECKING:
    import openai

MAX_BODY_BYTES = 8 << 20  # a streamed reply costs about 200 bytes a token; anything above this is not an answer
MIN_SECRET = 6  # shorter keys are placeholders of key-less local servers ("none", "EMPTY")
MESSAGE_CHARS = 600  # of a fault's text, the server's own words included


class LLMError(Exception):
    """The endpoint gave no usable answer.

    `permanent`: asking again changes nothing until a person acts. `again`: worth another attempt within the same call.
    `partial`: text received before a cut-off. `attempts`: requests made. `brief`: the same in a few words, for a list
    of attempts. No text of it holds the key.
    """

    def __init__(
        self,
        message: str,
        permanent: bool,
        *,
        again: bool = True,
        retry_after_s: float | None = None,
        partial: str = "",
        attempts: int = 1,
        brief: str = "",
    ) -> None:
        super().__init__(message)
        self.brief = brief or message.rstrip(".")
        self.permanent = permanent
        self.again = again and not permanent
        self.retry_after_s = retry_after_s
        self.partial = partial
        self.attempts = attempts

    def scrubbed(self, secret: str) -> LLMError:
        """The same fault without `secret` in any text."""
        message = scrub(str(self), secret)  # before the cut: half a key is no longer recognised
        return LLMError(
            message[:MESSAGE_CHARS] + ("…" if len(message) > MESSAGE_CHARS else ""),
            self.permanent,
            again=self.again,
            retry_after_s=self.retry_after_s,
            partial=scrub(self.partial, secret),
            brief=scrub(self.brief, secret)[:MESSAGE_CHARS],
        )


def scrub(text: str, secret: str) -> str:
    """`text` without `secret`, also where it is percent-, base64- or JSON-encoded."""
    if len(secret) < MIN_SECRET:
        return text
    encoded = base64.b64encode(secret.encode(errors="replace")).decode().rstrip("=")
    forms = {secret, quote(secret, safe="", errors="replace"), json.dumps(secret)[1:-1], encoded}
    for form in sorted(forms, key=len, reverse=True):
        text = text.replace(form, "[key]")
    return text


def status_fault(error: openai.APIStatusError, model: str, url: str) -> LLMError:
    """The fault behind an HTTP status. For 401 and 403 the server's words are left out: they may quote the key."""
    status = error.status_code
    said = f" It said: {_said(error)}" if _said(error) else ""
    if status in {401, 403}:
        return LLMError(f"{url} refused the key ({status}). Set LLM_API_KEY to a valid key and restart.", True)
    if status == 404:
        return LLMError(
            f"{url} knows no model {model!r}, or is not a chat endpoint (404). Check LLM_MODEL and LLM_BASE_URL.{said}",
            True,
        )
    if 300 <= status < 400:
        return LLMError(f"{url} redirects elsewhere ({status}). Set LLM_BASE_URL to the final address.", True)
    if status == 429 and error.code == "insufficient_quota":
        return LLMError(f"The account behind the key has no quota left (429).{said}", True)
    if status == 429:
        message = f"{url} limits the rate of requests (429).{said}"
        return LLMError(message, False, retry_after_s=_retry_after_s(error.response))
    if status in {408, 409, 425} or status >= 500:
        message = f"{url} failed ({status}).{said}"
        return LLMError(message, False, retry_after_s=_retry_after_s(error.response))
    return LLMError(f"{url} refused the request ({status}).{said}", True)


def connection_fault(error: Exception, url: str, partial: str) -> LLMError:
    """The fault behind a connection that could not be made, or that ended before the answer did."""
    cause = error.__cause__ or error
    if isinstance(cause, TooLarge):
        return LLMError(f"{url} sent more than {MAX_BODY_BYTES >> 20} MiB; the answer was dropped.", False, again=False)
    if isinstance(cause, Encoded):
        return LLMError(f"{url} compresses its answers although asked not to, so their size cannot be bounded.", True)
    if isinstance(cause, httpx2.UnsupportedProtocol | httpx2.LocalProtocolError):
        return LLMError("LLM_BASE_URL or LLM_API_KEY cannot be sent over HTTP: check both for stray characters.", True)
    if partial or isinstance(cause, httpx2.ReadError | httpx2.RemoteProtocolError):
        return LLMError(f"The answer of {url} was cut off: the connection was lost.", False, partial=partial)
    why = f"{url} cannot be reached ({type(cause).__name__}). Is it running, and is LLM_BASE_URL right?"
    return LLMError(why, False, brief=f"LLM endpoint unreachable at {url}")


def timeout_fault(timeout_s: float, partial: str) -> LLMError:
    """Not tried again within the call: a second full wait would hold a worker for minutes."""
    message = f"No complete answer within {timeout_s:g} s. Raise LLM_TIMEOUT_S if the model needs longer."
    return LLMError(message, False, again=False, partial=partial)


def protocol_fault(url: str) -> LLMError:
    """The body is no chat completion: a web page, broken JSON, another API."""
    return LLMError(f"{url} did not answer with a chat completion. Check LLM_BASE_URL: it usually ends in /v1.", False)


def _said(error: openai.APIStatusError) -> str:
    body = error.body
    inner = body.get("error", body) if isinstance(body, dict) else body
    message = inner.get("message") if isinstance(inner, dict) else inner
    if not isinstance(message, str) or message.lstrip().startswith("<"):  # a proxy's web page says nothing useful
        return ""
    return " ".join(message.split())


def _retry_after_s(response: httpx2.Response) -> float | None:
    """Seconds asked for by Retry-After(-Ms); a date or anything else counts as not given."""
    for header, divisor in (("retry-after-ms", 1000.0), ("retry-after", 1.0)):
        try:
            seconds = float(response.headers.get(header, "")) / divisor
        except ValueError:
            continue
        if 0 <= seconds < 1e6:
            return seconds
    return None


class TooLarge(httpx2.TransportError):
    """The body passed MAX_BODY_BYTES."""


class Encoded(httpx2.TransportError):
    """The body is compressed although identity was asked for."""


class Bounds:
    """Ends a response that takes too long in all or grows too large, whatever keep-alives it sends."""

    def __init__(self, clock: Callable[[], float], deadline: float) -> None:
        self._clock = clock
        self._deadline = deadline

    def guard(self, response: httpx2.Response) -> None:
        """Response hook: wraps the body before anybody reads it."""
        if response.headers.get("content-encoding", "identity").lower() != "identity":
            raise Encoded("compressed body")
        if isinstance(response.stream, httpx2.SyncByteStream):
            response.stream = _BoundedStream(response.stream, self._clock, self._deadline)


class _BoundedStream(httpx2.SyncByteStream):
    def __init__(self, inner: httpx2.SyncByteStream, clock: Callable[[], float], deadline: float) -> None:
        self._inner, self._clock, self._deadline = inner, clock, deadline

    def __iter__(self) -> Iterator[bytes]:
        size = 0
        for chunk in self._inner:
            size += len(chunk)
            if size > MAX_BODY_BYTES:
                raise TooLarge("body too large")
            if self._clock() > self._deadline:
                raise httpx2.ReadTimeout("deadline passed")
            yield chunk

    def close(self) -> None:
        self._inner.close()
