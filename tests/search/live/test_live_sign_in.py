"""Sockets behind the real origin check and session middleware: who gets in, and who is put out."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from asgiref.sync import sync_to_async
from channels.auth import AuthMiddlewareStack
from channels.routing import URLRouter
from channels.security.websocket import AllowedHostsOriginValidator
from channels.testing import WebsocketCommunicator
from django.contrib.auth.models import User
from django.contrib.sessions.models import Session
from django.db import connections
from django.test import Client
from django.urls import path

from search.live.hub import Hubs, Pace
from search.live.socket import RunSocket, signed_out, websocket_urlpatterns
from tests.search.live_rows import LONG_S, close, make_user, rows
from tests.search.makers import make_run

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
async def no_connection_stays() -> AsyncIterator[None]:
    """The session middleware reads in the one thread that async code shares; its connection would outlive the test."""
    yield
    await sync_to_async(connections.close_all)()


def sign_in(user: User) -> str:
    client = Client()
    client.force_login(user, backend="django.contrib.auth.backends.ModelBackend")
    return client.cookies["adaexplore_session"].value


def dial(hubs: Hubs, run_id: int, cookie: str, origin: str = "http://localhost") -> WebsocketCommunicator:
    routes = URLRouter([path("ws/run/<int:run_id>", RunSocket(hubs))])
    headers = [(b"cookie", f"adaexplore_session={cookie}".encode()), (b"origin", origin.encode())]
    stack = AllowedHostsOriginValidator(AuthMiddlewareStack(routes))
    return WebsocketCommunicator(stack, f"/ws/run/{run_id}?since=0&v=1", headers=headers)


async def test_an_unknown_address_is_refused_and_no_error():
    line = WebsocketCommunicator(URLRouter(websocket_urlpatterns), "/ws/none")
    assert await line.connect(timeout=LONG_S) == (False, 1000)


async def closing_code(line: WebsocketCommunicator) -> int:
    output = await line.receive_output(timeout=LONG_S)
    while output["type"] == "websocket.send":
        output = await line.receive_output(timeout=LONG_S)
    assert output["type"] == "websocket.close"
    return int(output["code"])


@pytest.mark.parametrize("end", ["sign out", "new password", "deactivated"])
async def test_a_socket_ends_when_its_session_does(end):
    hubs = Hubs(Pace(session_s=0.05, poll_s=5))
    run, user = await rows(make_run), await rows(make_user)
    cookie = await rows(sign_in, user)
    line = dial(hubs, run.pk, cookie)
    assert (await line.connect(timeout=LONG_S))[0]

    def act() -> None:
        if end == "sign out":
            Session.objects.all().delete()
        elif end == "new password":
            user.set_password("another-long-one")
            user.save()
        else:
            User.objects.filter(pk=user.pk).update(is_active=False)

    await rows(act)
    assert await closing_code(line) == 4401
    await close(hubs)


async def test_a_stranger_s_socket_is_refused():
    hubs = Hubs()
    run = await rows(make_run)
    line = dial(hubs, run.pk, "no-such-session")
    assert (await line.connect(timeout=LONG_S))[0]
    assert await closing_code(line) == 4401
    await close(hubs)


async def test_another_site_cannot_dial():
    hubs = Hubs()
    run, user = await rows(make_run), await rows(make_user)
    line = dial(hubs, run.pk, await rows(sign_in, user), origin="https://elsewhere.example")
    assert not (await line.connect(timeout=LONG_S))[0]
    await close(hubs)


def test_one_look_tells_ended_sessions_from_living_ones():
    living = sign_in(make_user("living"))
    assert signed_out({living, "gone"}) == {"gone"}
