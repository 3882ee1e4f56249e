"""A TCP proxy before the web server. It ends websockets as networks, proxies and servers do: with a code or without."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Coroutine, Iterator
from typing import Any

from tests.browser.stack import free_port

ABNORMAL = 1006  # no close frame: the connection is reset
CHUNK = 1 << 16


class Cutter:
    """Passes `port` on to `target`. `cut` ends every open websocket and says how many there were."""

    def __init__(self, target: int) -> None:
        self.target, self.port = target, free_port()
        self._sockets: set[asyncio.StreamWriter] = set()  # towards browsers
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        self._thread.start()
        self._server: asyncio.Server = self._do(asyncio.start_server(self._serve, "127.0.0.1", self.port))

    def stop(self) -> None:
        self._do(self._end())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    def cut(self, code: int) -> int:
        return int(self._do(self._cut(code)))

    @property
    def open(self) -> int:
        """Websockets that are open now."""
        return len(self._sockets)

    def _do(self, work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(10)

    async def _cut(self, code: int) -> int:
        lines, self._sockets = self._sockets, set()
        for line in lines:
            if code == ABNORMAL:
                line.transport.abort()
            else:
                line.write(b"\x88\x02" + code.to_bytes(2, "big"))  # an unmasked close frame, as servers send it
                line.close()
        return len(lines)

    async def _serve(self, browser: asyncio.StreamReader, line: asyncio.StreamWriter) -> None:
        try:
            server, onward = await asyncio.open_connection("127.0.0.1", self.target)
        except OSError:
            line.transport.abort()  # the server is away
            return
        ways = [asyncio.create_task(self._pass(browser, onward)), asyncio.create_task(self._pass(server, line, line))]
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._sockets.discard(line)
            for way in ways:
                way.cancel()
            for end in (line, onward):
                end.close()

    async def _pass(
        self, source: asyncio.StreamReader, onward: asyncio.StreamWriter, line: asyncio.StreamWriter | None = None
    ) -> None:
        """Bytes one way. With `line`, an answer that opens a websocket there is noted."""
        with contextlib.suppress(OSError):
            while data := await source.read(CHUNK):
                if onward.is_closing():
                    return
                onward.write(data)
                if line is not None and data.startswith(b"HTTP/1.1 101"):
                    self._sockets.add(line)
                await onward.drain()

    async def _end(self) -> None:
        self._server.close()
        tasks = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


@contextlib.contextmanager
def cutting(target: int) -> Iterator[Cutter]:
    """A running proxy to this port for the block."""
    cutter = Cutter(target)
    cutter.start()
    try:
        yield cutter
    finally:
        cutter.stop()
