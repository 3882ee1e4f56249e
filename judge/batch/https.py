"""Jobs from a server over HTTPS, and outcomes to it. Standard library only."""

from __future__ import annotations

import http.client
import ipaddress
import json
import secrets
import urllib.error
import urllib.parse
import urllib.request
from datetime import UTC, datetime
from email.message import Message
from pathlib import Path
from typing import IO, Any

from judge.batch.serving import Taken
from judge.bench.exchange import seal
from judge.devices.keys import DeviceKey
from judge.values.owners import owner_name

WAIT_S = 30.0
LEAVE_S = 1.0  # a server that is stopped waits no longer for an answer
MAX_ANSWER = 64 << 20
SOON = frozenset({408, 425, 429, 500, 502, 503, 504})  # another try may succeed


class ServerRefused(ValueError):
    """The server will not give jobs to us; the text says what to do."""


def ask_body(key: DeviceKey, verb: str, **fields: str) -> dict[str, str]:
    """What is asked, sealed with the key of the device: a token alone gets no sealed cases."""
    asked = {"device": key.device, "verb": verb, **fields}
    asked |= {"at": datetime.now(UTC).isoformat(), "nonce": secrets.token_hex(16)}
    return {**asked, "mac": seal.sign(asked, key=key.secret, nonce=asked["nonce"])}


def read_token(path: Path) -> str:
    """The token in a file of this account. Raises ServerRefused for one that others may read, and OSError."""
    if path.stat().st_mode & 0o077:
        raise ServerRefused(f"the token {path} is readable by others: run chmod 600 {path}")
    text = path.read_text().strip()
    if not text or not text.isascii() or not text.isprintable() or " " in text:
        raise ServerRefused(f"{path} holds no token: write the one of Settings, Tokens into it, and nothing else")
    return text


class ServerPlace:
    """The jobs of one device at a server: a Place. A fault that may pass is an OSError.

    Raises ServerRefused for an address without encryption, unless it is of this machine.
    """

    def __init__(self, url: str, key: DeviceKey, token: str) -> None:
        parts = urllib.parse.urlsplit(url)
        if parts.scheme not in ("https", "http") or not parts.hostname or parts.username:
            raise ServerRefused(f"{url!r} is no address of a server, such as https://dashboard.example.org")
        if parts.scheme == "http" and not _loopback(parts.hostname):
            raise ServerRefused(f"{url} is not encrypted: the token could be read on the way. Use https://")
        self._base = f"{url.rstrip('/')}/api/v1/jobs/{urllib.parse.quote(key.device, safe='')}"
        self._key, self._token = key, token
        self.owner = owner_name()
        self._opener = urllib.request.build_opener(_NoRedirects)

    def take(self) -> Taken | None:
        found = self._ask("take")
        if found.get("token") is None:
            return None
        return Taken(str(found["token"]), str(found["line"]).encode())

    def renew(self, taken: Taken) -> bool:
        return bool(self._ask("renew", token=taken.token).get("done"))

    def put(self, taken: Taken, line: bytes) -> bool:
        return bool(self._ask("answer", token=taken.token, line=line.decode()).get("done"))

    def release(self, taken: Taken) -> None:
        self._ask("release", wait_s=LEAVE_S, token=taken.token)

    def refuse(self, taken: Taken, why: str) -> None:
        self._ask("refuse", token=taken.token, line=why)

    def _ask(self, verb: str, *, wait_s: float = WAIT_S, token: str = "", line: str = "") -> dict[str, Any]:
        body = ask_body(self._key, verb, owner=self.owner, token=token, line=line)
        request = urllib.request.Request(
            f"{self._base}/{verb}",
            data=json.dumps(body).encode(),
            headers={"Authorization": f"Bearer {self._token}", "Content-Type": "application/json"},
            method="POST",
        )
        try:
            with self._opener.open(request, timeout=wait_s) as answer:
                found = json.loads(answer.read(MAX_ANSWER))
        except urllib.error.HTTPError as error:
            if error.code in SOON:
                raise OSError(f"the server answers {error.code}") from error
            raise ServerRefused(f"the server answers {error.code}: {_detail(error)}") from error
        except (http.client.HTTPException, ValueError) as error:
            raise OSError(f"the server's answer cannot be read ({type(error).__name__})") from error
        if not isinstance(found, dict):
            raise OSError("the server's answer is no object")
        return found


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """A redirect would take the token elsewhere."""

    def redirect_request(
        self, req: urllib.request.Request, fp: IO[bytes], code: int, msg: str, headers: Message, newurl: str
    ) -> None:
        return None


def _loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _detail(error: urllib.error.HTTPError) -> str:
    try:
        return str(json.loads(error.read(1 << 16))["detail"])[:500]
    except (ValueError, KeyError, TypeError, OSError, http.client.HTTPException):
        return str(error.reason)[:200]
