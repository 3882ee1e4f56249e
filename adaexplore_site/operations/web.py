"""The web process: Daphne with limits on request bodies and a pool of connections.

`python -m adaexplore_site.operations.web` takes the options of Daphne's command line.
ADR 44 says why Daphne alone is not enough.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from typing import Any

import daphne.server  # first: it installs Twisted's reactor
from channels.db import database_sync_to_async
from daphne.cli import CommandLineInterface
from daphne.http_protocol import HTTPFactory, WebRequest
from django.conf import settings
from django.db import Error as DatabaseFault
from django.db import close_old_connections
from django.http import HttpRequest, parse_cookie
from twisted.web.http import HTTPChannel

from adaexplore_site.core.env import MAX_UPLOAD_BYTES
from adaexplore_site.operations.busy import RETRY_AFTER_S

log = logging.getLogger("adaexplore_site.operations.web")  # not __main__

ANONYMOUS_BYTES = 64 << 10  # a sign-in form has less than 1 KiB
MEMBER_BYTES = MAX_UPLOAD_BYTES + (1 << 20)  # the other fields of the form
LINGER_S = 5  # a refused client may go on sending for so long: an earlier close could cost it the answer
PAGE_THREADS = 4  # error pages are rendered in threads of their own
LIVE_THREADS = 5  # search.live.hub, and one for the sign-in of sockets and of large bodies

ANONYMOUS_TOO_LARGE = f"The request body is over {ANONYMOUS_BYTES >> 10} KiB. Sign in to send more."
MEMBER_TOO_LARGE = (
    f"The request body is over {MEMBER_BYTES >> 20} MiB. Import a larger search with the command import_search."
)


class TooLarge(Exception):
    """More of a body came than the client may send."""


class Request(WebRequest):  # type: ignore[misc]  # Daphne is untyped
    """Leaves the body to Django: Twisted would parse a form in the event loop, where 20 MB can take 20 s."""

    def __init__(self, channel: Channel, *args: Any) -> None:
        super().__init__(channel, *args, parsePOSTFormSubmission=False)

    def handleContentChunk(self, data: bytes) -> None:
        """Add to the body. Raises TooLarge."""
        if self.content.tell() + len(data) > self.channel.limit_bytes:
            raise TooLarge
        super().handleContentChunk(data)


class Channel(HTTPChannel):  # type: ignore[misc]  # Twisted is not followed
    """One connection. Decides how large a body may be once its headers are here, before the body is read."""

    limit_bytes = 0
    refused = False
    _asking: asyncio.Task[None] | None = None

    def dataReceived(self, data: bytes) -> None:
        """Bytes of a request; after a refusal they are dropped, and do not put off the end of the connection."""
        if not self.refused:
            super().dataReceived(data)

    def allHeadersReceived(self) -> None:
        """Go on to the body, ask who sends it, or refuse it."""
        headers = self.requests[-1].requestHeaders
        cookie = b"; ".join(headers.getRawHeaders(b"Cookie", [])).decode("latin-1")
        bearer = headers.getRawHeaders(b"Authorization", [b""])[0].decode("latin-1")
        self.limit_bytes = ANONYMOUS_BYTES
        if self.length is not None and self.length <= ANONYMOUS_BYTES:
            super().allHeadersReceived()
        elif self.length is not None and self.length > MEMBER_BYTES:
            self.refuse("413 Content Too Large", MEMBER_TOO_LARGE)
        else:
            self.paused = True
            self._networkProducer.pauseProducing()
            self._asking = asyncio.ensure_future(self._ask(self.requests[-1], cookie, bearer))

    async def _ask(self, request: Request, cookie: str, bearer: str) -> None:
        """Find out whether a member sends the body, then read or refuse it."""
        refusal = ("413 Content Too Large", ANONYMOUS_TOO_LARGE)
        try:
            if await database_sync_to_async(is_member)(cookie, bearer):
                self.limit_bytes = MEMBER_BYTES
        except DatabaseFault:
            refusal = ("503 Service Unavailable", "The database does not answer. Try again in a few seconds.")
        if request.channel is None:  # it left meanwhile
            return
        self.paused = False
        self._networkProducer.resumeProducing()
        if self.length is not None and self.length > self.limit_bytes:
            self.refuse(*refusal)
        else:
            super().allHeadersReceived()
            self.dataReceived(b"")  # what came before the pause

    def rawDataReceived(self, data: bytes) -> None:
        """A part of a body."""
        try:
            super().rawDataReceived(data)
        except TooLarge:
            member = self.limit_bytes == MEMBER_BYTES
            self.refuse("413 Content Too Large", MEMBER_TOO_LARGE if member else ANONYMOUS_TOO_LARGE)

    def lineLengthExceeded(self, line: bytes) -> None:
        """An address or a header that is too long; Twisted would only close the connection."""
        if hasattr(self, "_command"):
            self.refuse("431 Request Header Fields Too Large", f"A header is over {self.MAX_LENGTH >> 10} KiB.")
        else:
            self.refuse("414 URI Too Long", f"The address is over {self.MAX_LENGTH >> 10} KiB.")

    def refuse(self, status: str, text: str) -> None:
        """Answer in plain text, drop what still comes, and close."""
        log.info("%s for %s", status, self.getPeer())
        lines = [f"HTTP/1.1 {status}", "Content-Type: text/plain; charset=utf-8", "Connection: close"]
        if status.startswith("503"):
            lines.append(f"Retry-After: {RETRY_AFTER_S}")
        self.transport.write("\r\n".join([*lines, "", f"{text}\n"]).encode())
        self.transport.loseWriteConnection()
        self.setTimeout(LINGER_S)
        self._buffer, self.refused = b"", True


class Factory(HTTPFactory):  # type: ignore[misc]
    """Makes such connections."""

    protocol = Channel

    def buildProtocol(self, addr: Any) -> Channel:
        """A channel for `addr`, without Twisted's layer that negotiates HTTP/2: that needs TLS in this process."""
        channel: Channel = super().buildProtocol(addr)
        channel.requestFactory = Request
        return channel


class Threads(ThreadPoolExecutor):
    """Gives each thread's connection back after each call: Django does so only for threads that run a view."""

    def submit(self, call: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """The future of `call(*args, **kwargs)`."""

        def closing() -> Any:
            try:
                return call(*args, **kwargs)
            finally:
                close_old_connections()

        return super().submit(closing)


def is_member(cookie: str, bearer: str) -> bool:
    """Whether the headers Cookie and Authorization are those of somebody who is signed in. Up to three queries."""
    from importlib import import_module

    from django.contrib.auth import get_user
    from django.utils import timezone

    from adaexplore_site.accounts.services import user_of

    scheme, _, token = bearer.partition(" ")
    if scheme.lower() == "bearer" and user_of(token.strip(), now=timezone.now()) is not None:
        return True
    key = parse_cookie(cookie).get(settings.SESSION_COOKIE_NAME)
    if not key:
        return False
    request = HttpRequest()
    request.session = import_module(settings.SESSION_ENGINE).SessionStore(key)
    return get_user(request).is_authenticated


def use_pool(database: dict[str, Any], requests: int) -> None:
    """Change the settings of a PostgreSQL database: one connection for each thread that can want one, in a pool.

    Of this process alone: a pool must not be shared with children, and workers close their connection after each task.
    """
    if "postgresql" in database["ENGINE"]:
        most = requests + PAGE_THREADS + LIVE_THREADS
        pool = {"min_size": min(2, most), "max_size": most, "max_idle": 60.0, "timeout": 5.0, "reconnect_timeout": 5.0}
        database["OPTIONS"] = {**database.get("OPTIONS", {}), "pool": pool}


def main(arguments: list[str]) -> None:
    """Serve until a signal ends the process."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "adaexplore_site.settings")
    use_pool(settings.DATABASES["default"], settings.WEB_REQUESTS)
    daphne.server.HTTPFactory = Factory
    daphne.server.twisted_loop.set_default_executor(Threads(PAGE_THREADS, "page"))
    CommandLineInterface().run([*arguments, "adaexplore_site.asgi:application"])


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):
        main(sys.argv[1:])
