"""What a client is told while the site is too busy: 503, and when to try again."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable
from typing import Any

from django.db import OperationalError
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.template.loader import render_to_string
from django.utils.translation import gettext_lazy as _
from django.views.defaults import server_error
from psycopg import OperationalError as PostgresAway

RETRY_AFTER_S = 5
NO_DATABASE = _("The database does not answer or has no free connection. Try again in a few seconds.")
NO_SLOT = "The site is answering as many requests as it can. Nothing was changed. Try again in a few seconds.\n"

Application = Callable[..., Awaitable[None]]  # of ASGI: scope, receive, send


class Slots:
    """An ASGI application that lets at most `at_once` requests into another; the others wait `wait_s`, then get 503.

    Each request in Django runs in a thread of its own and holds a connection to the database.
    """

    def __init__(self, application: Application, *, at_once: int, wait_s: float = 10.0) -> None:
        self._application, self._wait_s = application, wait_s
        self._free = asyncio.Semaphore(at_once)

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Callable[..., Awaitable[None]]) -> None:
        try:
            async with asyncio.timeout(self._wait_s):
                await self._free.acquire()
        except TimeoutError:
            await _refuse(send)
            return
        try:
            await self._application(scope, receive, send)
        finally:
            self._free.release()


async def _refuse(send: Callable[[dict[str, Any]], Awaitable[None]]) -> None:
    headers = [(b"Content-Type", b"text/plain; charset=utf-8"), (b"Retry-After", str(RETRY_AFTER_S).encode())]
    await send({"type": "http.response.start", "status": 503, "headers": headers})
    await send({"type": "http.response.body", "body": NO_SLOT.encode()})


def fault(request: HttpRequest) -> HttpResponse:
    """The page for an error in a view: 503 where PostgreSQL is away or its pool is exhausted, else 500."""
    error = sys.exc_info()[1]
    if not (isinstance(error, OperationalError) and isinstance(error.__cause__, PostgresAway)):
        return server_error(request)
    headers = {"Retry-After": str(RETRY_AFTER_S)}
    if request.path.startswith("/api/"):
        return JsonResponse({"detail": NO_DATABASE}, status=503, headers=headers)
    return HttpResponse(render_to_string("503.html", {"words": NO_DATABASE}), status=503, headers=headers)
