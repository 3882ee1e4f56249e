"""What goes wrong on any page of a browser: errors of scripts, console and requests, and requests to other servers."""

from __future__ import annotations

from urllib.parse import urlsplit

from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, Request, WebSocket

HERE = ("127.0.0.1", "localhost")
INLINE = ("data:", "blob:", "about:")
SERVER_AWAY = ("WebSocket connection", "ERR_CONNECTION", "ERR_EMPTY_RESPONSE")  # what a page says that dials a dead one
LEFT = "net::ERR_ABORTED"  # what a page was still asking for when it was left, and a file that became a download


class Faults:
    """`told` holds one line per fault of every page that the watched browser opens from now on."""

    def __init__(self) -> None:
        self.told: list[str] = []
        self._forgiven: tuple[str, ...] = ()

    def watch(self, browser: Browser) -> None:
        browser.on("context", self._context)

    def forgive(self, *words: str) -> None:
        """Faults with one of these words, told or still to come, are what this test breaks on purpose."""
        self._forgiven += words

    def settle(self) -> list[str]:
        """The faults nobody forgave; after it nothing is told or forgiven."""
        left = [fault for fault in self.told if not any(word in fault for word in self._forgiven)]
        self.told, self._forgiven = [], ()
        return left

    def _context(self, context: BrowserContext) -> None:
        context.on("weberror", lambda error: self.told.append(f"script: {error.error}"))
        context.on("console", self._console)
        context.on("request", self._request)
        context.on("requestfailed", self._failed)
        context.on("page", self._page)

    def _page(self, page: Page) -> None:
        page.on("websocket", self._socket)

    def _console(self, message: ConsoleMessage) -> None:
        if message.type == "error":
            self.told.append(f"console: {message.text} ({message.location.get('url', '')})")

    def _request(self, request: Request) -> None:
        home = HERE if request.is_navigation_request() else (urlsplit(request.frame.url).netloc,)
        self._foreign(request.url, home)

    def _socket(self, socket: WebSocket) -> None:
        self._foreign(socket.url, HERE)

    def _foreign(self, url: str, home: tuple[str, ...]) -> None:
        parts = urlsplit(url)
        if not url.startswith(INLINE) and not {parts.netloc, parts.hostname} & set(home):
            self.told.append(f"foreign: {url}")

    def _failed(self, request: Request) -> None:
        if request.failure != LEFT:
            self.told.append(f"failed: {request.failure} {request.url}")
