"""A busy site says so with 503 and when to try again; it neither breaks nor takes on more than it can."""

from __future__ import annotations

import asyncio
from typing import Any

import psycopg
import pytest
from django.contrib.sessions.backends.db import SessionStore
from django.db import OperationalError
from django.test import Client
from psycopg_pool import PoolTimeout

from adaexplore_site.operations.busy import Slots


class Slow:
    """An ASGI application whose requests go on until they are let go."""

    def __init__(self) -> None:
        self.inside = self.most = self.ended = 0
        self.go = asyncio.Event()

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        self.inside += 1
        self.most = max(self.most, self.inside)
        try:
            await self.go.wait()
            if scope.get("breaks"):
                raise LookupError
        finally:
            self.inside -= 1
            self.ended += 1


async def turns(count: int = 20) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


async def test_no_more_requests_than_slots_are_worked_on_and_all_are_answered():
    slow = Slow()
    slots = Slots(slow, at_once=3)
    asked = [asyncio.ensure_future(slots({"breaks": place < 4}, None, None)) for place in range(10)]
    await turns()
    assert slow.inside == 3
    slow.go.set()
    await asyncio.gather(*asked, return_exceptions=True)
    assert (slow.most, slow.ended) == (3, 10)  # a request that breaks gives its slot back, too


async def test_who_waits_too_long_is_told_when_to_try_again():
    slow, sent = Slow(), []

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    slots = Slots(slow, at_once=1, wait_s=0)
    first = asyncio.ensure_future(slots({}, None, send))
    await turns()
    second = asyncio.ensure_future(slots({}, None, send))
    await turns()
    assert second.done()
    assert (sent[0]["status"], dict(sent[0]["headers"])[b"Retry-After"]) == (503, b"5")
    assert b"Try again in a few seconds" in sent[1]["body"]
    slow.go.set()
    await first
    await slots({}, None, send)
    assert (slow.ended, len(sent)) == (2, 2)


@pytest.mark.django_db
@pytest.mark.parametrize("path", ["/", "/api/v1/searches"])
@pytest.mark.parametrize(
    ("cause", "status"),
    [(PoolTimeout("none is free"), 503), (psycopg.OperationalError("refused"), 503), (RuntimeError("a bug"), 500)],
)
def test_a_database_that_gives_no_connection_is_503_without_a_trace(monkeypatch, caplog, path, cause, status):
    def load(self: SessionStore) -> None:
        raise OperationalError(str(cause)) from cause

    monkeypatch.setattr(SessionStore, "load", load)
    client = Client(raise_request_exception=False)
    client.cookies["adaexplore_session"] = "0" * 32
    answer = client.get(path)
    assert answer.status_code == status
    assert ("Retry-After" in answer) is (status == 503)
    assert (b"no free connection" in answer.content) is (status == 503)
    logged = [record for record in caplog.records if record.name == "django.request"]
    assert [record.status_code for record in logged] == [status]
