"""The web process: what is refused before it is read, who may send much, and connections that are given back."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.conf import settings
from django.contrib.auth.models import User
from django.db import OperationalError, connection, connections
from django.test import Client
from django.utils import timezone
from twisted.internet.task import Clock
from twisted.internet.testing import StringTransport

from adaexplore_site.accounts.services import token_issue
from adaexplore_site.core.env import MAX_UPLOAD_BYTES
from adaexplore_site.operations import web
from memory.rules.files import MAX_BYTES as MAX_RULES_BYTES
from tests.browser.stack import ROOT, environment, free_port, wait_for
from tests.search.live_rows import make_user, rows

LARGE = web.ANONYMOUS_BYTES + 1


def test_the_module_is_imported_before_django_is_set_up() -> None:
    loaded = subprocess.run([sys.executable, "-c", f"import {web.__name__}"], cwd=ROOT, capture_output=True, text=True)
    assert loaded.returncode == 0, loaded.stderr[-1000:]


class Wire(StringTransport):
    """A connection in memory. `closed` once the server sends no more, and once it reads no more."""

    closed = ""

    def loseWriteConnection(self) -> None:
        self.closed = "half"

    def loseConnection(self) -> None:
        self.closed = "whole"


class Server:
    """Daphne's server as far as requests use it: keeps what would reach Django."""

    root_path = server_name = ""
    proxy_forwarded_address_header = None
    request_buffer_size = 8192

    def __init__(self) -> None:
        self.seen: list[tuple[Any, asyncio.Queue[dict[str, Any]]]] = []

    def protocol_connected(self, protocol: Any) -> None:
        pass

    protocol_disconnected = protocol_connected

    def create_application(self, protocol: Any, scope: dict[str, Any]) -> asyncio.Queue[dict[str, Any]]:
        self.seen.append((protocol, asyncio.Queue()))
        return self.seen[-1][1]


class Line:
    """One client: `send` bytes, `answer` is what came back, `bodies` are those that reached Django."""

    def __init__(self) -> None:
        self.server, self.wire, self.clock = Server(), Wire(), Clock()
        self.channel = web.Factory(self.server).buildProtocol(None)
        self.channel.callLater = self.clock.callLater
        self.channel.makeConnection(self.wire)

    async def send(self, *parts: bytes) -> str:
        """The answer after these parts; whoever had to be asked has been asked."""
        for part in parts:
            self.channel.dataReceived(part)
            if self.channel._asking is not None:
                await self.channel._asking
        return self.answer

    @property
    def answer(self) -> str:
        return self.wire.value().decode()

    @property
    def bodies(self) -> list[int]:
        """Bytes of each body that reached Django."""
        found = []
        for _, queue in self.server.seen:
            found.append(0)
            while not queue.empty():
                found[-1] += len(queue.get_nowait().get("body", b""))
        return found


def head(*lines: str, method: str = "POST") -> bytes:
    return "\r\n".join([f"{method} /import/ HTTP/1.1", "Host: localhost", *lines, "", ""]).encode()


def length(size: int) -> str:
    return f"Content-Length: {size}"


CHUNKED = "Transfer-Encoding: chunked"


def chunk(size: int) -> bytes:
    return b"%x\r\n" % size + b"x" * size + b"\r\n"


@pytest.fixture
async def no_connection_stays() -> AsyncIterator[None]:
    """Members are looked up in the one thread that async code shares; its connection would outlive the test."""
    yield
    await sync_to_async(connections.close_all)()


def session_of(user: User) -> str:
    client = Client()
    client.force_login(user, backend="django.contrib.auth.backends.ModelBackend")
    return f"Cookie: a=b; adaexplore_session={client.cookies['adaexplore_session'].value}"


def token_of(user: User) -> str:
    _, text = token_issue(name="mine", scopes=["read"], days=1, user=user, now=timezone.now())
    return f"Authorization: Bearer {text}"


@pytest.mark.parametrize("form", ["multipart/form-data; boundary=q", "application/x-www-form-urlencoded"])
async def test_a_form_reaches_django_unparsed(form):
    line, body = Line(), b'--q\r\nContent-Disposition: form-data; name="a"\r\n\r\n1\r\n--q--\r\n'
    assert await line.send(head(length(len(body)), f"Content-Type: {form}") + body) == ""
    request, queue = line.server.seen[0]
    assert request.args == {}
    assert queue.get_nowait() == {"type": "http.request", "body": body, "more_body": False}


@pytest.mark.parametrize("method", ["POST", "PUT", "GET", "NONSENSE"])
async def test_a_stranger_s_large_body_is_refused_before_it_is_read(method):
    line = Line()
    answer = await line.send(head(length(LARGE), "Expect: 100-continue", method=method))
    assert answer.startswith("HTTP/1.1 413 Content Too Large\r\n")
    assert answer.endswith("\r\n\r\nThe request body is over 64 KiB. Sign in to send more.\n")
    await line.send(b"x" * LARGE)
    assert (line.answer, line.server.seen, line.wire.closed) == (answer, [], "half")
    line.clock.advance(web.LINGER_S)
    assert line.wire.closed == "whole"


async def test_a_stranger_s_small_body_is_read():
    line = Line()
    await line.send(head(length(LARGE - 1)), b"x" * (LARGE - 2), b"x")
    assert line.bodies == [LARGE - 1]


async def test_a_stranger_s_chunks_are_read_up_to_the_same_limit():
    line = Line()
    await line.send(head(CHUNKED), chunk(LARGE - 1), b"0\r\n\r\n")
    assert line.bodies == [LARGE - 1]
    line = Line()
    answer = await line.send(head(CHUNKED) + chunk(LARGE - 1) + chunk(1) + b"0\r\n\r\n" + head(length(0)))
    assert answer.startswith("HTTP/1.1 413 ") and answer.count("HTTP/1.1") == 1
    assert line.server.seen == []


@pytest.mark.parametrize("who", ["Cookie: adaexplore_session=" + "a" * 32, "Authorization: Bearer ada_guessed"])
@pytest.mark.django_db(transaction=True)
async def test_a_made_up_cookie_or_token_is_a_stranger_s(who, no_connection_stays):
    assert (await Line().send(head(length(LARGE), who))).startswith("HTTP/1.1 413 ")


@pytest.mark.parametrize("sign_in", [session_of, token_of])
@pytest.mark.django_db(transaction=True)
async def test_a_member_s_large_body_is_read_and_a_larger_one_is_not(sign_in, no_connection_stays):
    user = await rows(make_user)
    who = await rows(sign_in, user)
    line = Line()
    await line.send(head(length(LARGE), who) + b"x" * 10, b"x" * (LARGE - 10))
    assert (line.answer, line.bodies) == ("", [LARGE])
    line = Line()
    await line.send(head(CHUNKED, who), chunk(LARGE), b"0\r\n\r\n")
    assert line.bodies == [LARGE]
    line = Line()
    answer = await line.send(head(length(web.MEMBER_BYTES + 1), who))
    assert answer.startswith("HTTP/1.1 413 ") and "The request body is over 33 MiB." in answer
    await rows(User.objects.update, is_active=False)
    assert (await Line().send(head(length(LARGE), who))).startswith("HTTP/1.1 413 ")


async def test_who_leaves_while_the_sender_is_looked_up_gets_nothing():
    line = Line()
    line.channel.dataReceived(head(length(LARGE)))
    line.channel.connectionLost(ConnectionError())
    await line.channel._asking
    assert (line.answer, line.server.seen) == ("", [])


async def test_a_large_body_waits_for_a_database_that_is_away(monkeypatch):
    def away(cookie: str, bearer: str) -> bool:
        raise OperationalError

    monkeypatch.setattr(web, "is_member", away)
    answer = await Line().send(head(length(LARGE)))
    assert answer.startswith("HTTP/1.1 503 ") and "\r\nRetry-After: 5\r\n" in answer


def test_every_upload_of_the_product_fits():
    largest = max(MAX_UPLOAD_BYTES, MAX_RULES_BYTES, settings.MAX_PROBLEM_BYTES, settings.DATA_UPLOAD_MAX_MEMORY_SIZE)
    assert largest < web.MEMBER_BYTES


async def test_a_long_address_and_a_long_header_are_told_so():
    long = b"a" * 20_000
    assert (await Line().send(b"GET /?" + long + b" HTTP/1.1\r\nHost: a\r\n\r\n")).startswith("HTTP/1.1 414 ")
    assert (await Line().send(b"GET / HTTP/1.1\r\nX-A: " + long + b"\r\n\r\n")).startswith("HTTP/1.1 431 ")


def test_each_thread_that_can_want_a_connection_gets_one_in_this_process_alone():
    database: dict[str, Any] = {"ENGINE": "django.db.backends.postgresql", "OPTIONS": {"sslmode": "require"}}
    web.use_pool(database, 16)
    assert database["OPTIONS"]["sslmode"] == "require"
    assert database["OPTIONS"]["pool"]["max_size"] == 16 + web.PAGE_THREADS + web.LIVE_THREADS
    lite = {"ENGINE": "django.db.backends.sqlite3", "OPTIONS": {"timeout": 20}}
    web.use_pool(lite, 16)
    assert lite["OPTIONS"] == {"timeout": 20}
    assert "pool" not in settings.DATABASES["default"].get("OPTIONS", {})  # workers import the same settings


@pytest.mark.django_db(transaction=True)
def test_a_thread_that_renders_an_error_page_gives_its_connection_back():
    def read() -> Any:
        assert User.objects.count() == 0
        return connections["default"]

    with web.Threads(1) as threads:
        assert threads.submit(read).result().connection is None


@pytest.fixture
def site(tmp_path: Path) -> Iterator[str]:
    """Address of a real web process with four slots on the database of the test."""
    if connection.vendor != "postgresql":
        pytest.skip("SQLite has no limit of connections")
    kept, port = connection.settings_dict, free_port()
    place = f"{kept['USER']}:{kept['PASSWORD']}@{kept['HOST']}:{kept['PORT'] or 5432}/{kept['NAME']}"
    env = environment(tmp_path, port, DATABASE_URL=f"postgres://{place}", WEB_REQUESTS="4")
    command = [sys.executable, "-m", "adaexplore_site.operations.web", "-b", "127.0.0.1", "-p", str(port)]
    with (tmp_path / "log").open("wb") as log:
        process = subprocess.Popen(command, cwd=ROOT, env=env, stdout=log, stderr=log)
    try:
        wait_for(lambda: b"Listening" in (tmp_path / "log").read_bytes(), 60, "the web process")
        yield f"http://127.0.0.1:{port}"
    finally:
        process.kill()
        process.wait()


async def ask(port: int, path: str, cookie: str) -> str:
    """The status of one GET."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(f"GET {path} HTTP/1.1\r\nHost: localhost\r\nCookie: {cookie}\r\nConnection: close\r\n\r\n".encode())
    answer = await reader.read()
    writer.close()
    return answer.split(b" ")[1].decode()


def held() -> int:
    """Connections of others to this database."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )
        return int(cursor.fetchone()[0])


@pytest.mark.slow
@pytest.mark.django_db(transaction=True)
def test_hundreds_of_made_up_cookies_leave_connections_for_others(site):
    most = 4 + web.PAGE_THREADS + web.LIVE_THREADS
    port = int(site.rpartition(":")[2])

    async def flood(path: str, cookies: list[str]) -> Counter[str]:
        """More at once than slots and connections, and few enough that none waits for a slot for ten seconds: 503."""
        at_once = asyncio.Semaphore(2 * most)

        async def one(cookie: str) -> str:
            async with at_once:
                return await ask(port, path, cookie)

        return Counter(await asyncio.gather(*map(one, cookies)))

    before = held()
    made_up = [f"adaexplore_session={place:032d}" for place in range(150)]
    assert asyncio.run(flood("/", made_up)) == {"302": 150}
    assert held() - before <= most
    member = session_of(make_user()).removeprefix("Cookie: ")
    assert asyncio.run(flood("/nothing-here", [member] * 40)) == {"404": 40}  # error pages read rows in other threads
    assert held() - before <= most
    assert asyncio.run(flood("/", made_up[:1])) == {"302": 1}
