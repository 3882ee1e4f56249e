"""Webhooks: what is sent, to which addresses, signed how, retried when."""

from __future__ import annotations

import base64
import hashlib
import hmac
import ipaddress
import json
import logging
import secrets
import socket
import threading
import time
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import SplitResult, urlsplit, urlunsplit

import httpx2
from django.conf import settings
from django.contrib.auth.models import User
from django.db import transaction
from django.db.models import Exists, Min, OuterRef
from django.utils import timezone
from django.utils.translation import gettext

from adaexplore_site.core import env
from adaexplore_site.core.audit import ActionRefused, action_on
from adaexplore_site.core.models import Webhook, WebhookDelivery
from adaexplore_site.core.outbox import EVENTS
from adaexplore_site.core.text import escaped as storable

IP = ipaddress.IPv4Address | ipaddress.IPv6Address
NAT64 = ipaddress.ip_network("64:ff9b::/96")
# Refused whatever is allowed: metadata of clouds, and numbers behind which another number may stand.
NEVER = tuple(
    ipaddress.ip_network(text)
    for text in (
        "0.0.0.0/8", "192.0.0.0/24", "168.63.129.16/32", "fd00:ec2::254/128", "64:ff9b:1::/48", "::ffff:0:0:0/96",
        "fec0::/10",
    )
)  # fmt: skip
LOOK_UP_S = 5.0
Resolve = Callable[[str, int], list[str]]


class BadAddress(ValueError):
    """Nothing is sent there. The message says why."""


@dataclass(frozen=True)
class Target:
    """What to connect to: `url` with the checked number in place of the name, which a second look-up could change."""

    url: str
    host: str  # for the header Host
    name: str  # for TLS


def private_allowed() -> bool:
    """Whether addresses of private networks and of this machine may be used (`ADAEXPLORE_WEBHOOK_PRIVATE`)."""
    return env.flag("ADAEXPLORE_WEBHOOK_PRIVATE")


def parts_of(address: str) -> SplitResult:
    """A web address in parts, its host in ASCII (IDNA). Raises BadAddress."""
    try:
        parts = urlsplit(address.strip())
        port = parts.port
    except ValueError as error:
        raise BadAddress(gettext("This is no web address: %(error)s.") % {"error": error}) from error
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise BadAddress(gettext("Write a web address that begins with https:// or http://."))
    if parts.username is not None or parts.password is not None:
        raise BadAddress(gettext("Leave name and password out of the address: the signature says who sends."))
    if port == 0 or any(char.isspace() or not char.isprintable() for char in address.strip()):
        raise BadAddress(gettext("This is no web address that can be reached."))
    return parts if parts.netloc.isascii() else parts._replace(netloc=_ascii(parts))


def _ascii(parts: SplitResult) -> str:
    try:
        host = str(parts.hostname).encode("idna").decode("ascii")
    except UnicodeError as error:
        message = gettext("%(name)s is no name of a host: %(error)s.")
        raise BadAddress(message % {"name": parts.hostname, "error": error}) from error
    return host if parts.port is None else f"{host}:{parts.port}"


def target_of(address: str, *, resolve: Resolve | None = None, within_s: float = LOOK_UP_S) -> Target:
    """Look the name up once and check every number it has. Raises BadAddress, also when that takes too long."""
    parts = parts_of(address)
    name = str(parts.hostname)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    numbers = _in_time(resolve or _resolve, name, port, within_s)
    for number in numbers:
        if why := refusal(ipaddress.ip_address(number.partition("%")[0]), private=private_allowed()):
            raise BadAddress(gettext("%(name)s is %(what)s. Nothing is sent there.") % {"name": name, "what": why})
    first = f"[{numbers[0]}]" if ":" in numbers[0] else numbers[0]
    url = urlunsplit((parts.scheme, f"{first}:{port}", parts.path or "/", parts.query, ""))
    return Target(url=url, host=parts.netloc, name=name)


def refusal(number: IP, *, private: bool) -> str:
    """Why nothing may be sent to this number; empty when it may."""
    inner = _inner(number)
    if inner is not None:
        return refusal(inner, private=private)
    if number.is_link_local or number.is_multicast or number.is_unspecified:
        return gettext(
            "a link-local, multicast or empty address"
        )  # metadata of clouds among them: never, whatever is allowed
    if any(number in net for net in NEVER) or (number.is_reserved and not number.is_loopback):
        return gettext("a reserved address")
    if private and (number.is_private or number.is_loopback):
        return ""
    if number.is_loopback:
        return gettext("this machine")
    return "" if number.is_global else gettext("an address of a private network")


def _inner(number: IP) -> IP | None:
    """The IPv4 number within an IPv6 number."""
    if isinstance(number, ipaddress.IPv4Address):
        return None
    if number in NAT64:
        return ipaddress.IPv4Address(int(number) & 0xFFFFFFFF)
    return number.ipv4_mapped or number.sixtofour or (number.teredo[1] if number.teredo else None)


def _in_time(resolve: Resolve, name: str, port: int, within_s: float) -> list[str]:
    """In a thread: the system has no limit of its own for it that we could set. One that is late is left to end."""
    found = Future[list[str]]()

    def look() -> None:
        try:
            found.set_result(resolve(name, port))
        except BadAddress as error:
            found.set_exception(error)

    threading.Thread(target=look, daemon=True, name="webhook-look-up").start()
    try:
        return found.result(max(within_s, 0.0))
    except TimeoutError as error:
        raise BadAddress(gettext("%(name)s was not found in time.") % {"name": name}) from error


def _resolve(name: str, port: int) -> list[str]:
    try:
        found = socket.getaddrinfo(name, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise BadAddress(gettext("%(name)s is not known: %(error)s.") % {"name": name, "error": error}) from error
    return [str(row[4][0]) for row in found]


class Deadline:
    """Ends the connection that it watches after `seconds`, whatever is being read or written there."""

    def __init__(self, seconds: float) -> None:
        self.end = time.monotonic() + seconds
        self._socket: socket.socket | None = None
        self._timer: threading.Timer | None = None

    @property
    def left_s(self) -> float:
        """Seconds until the end; negative after it."""
        return self.end - time.monotonic()

    def watch(self, name: str, facts: Mapping[str, Any]) -> None:
        """Hear what the client does (its extension `trace`): there is a connection to watch once it has one."""
        if name != "connection.connect_tcp.complete":
            return
        # A copy of the handle: TLS takes the first one over, and shutting down any of them ends the connection.
        self._socket = facts["return_value"].get_extra_info("socket").dup()
        self._timer = threading.Timer(max(self.left_s, 0.0), self._shut)
        self._timer.daemon = True
        self._timer.start()

    def _shut(self) -> None:
        with suppress(OSError):  # it has ended by itself
            if self._socket is not None:
                self._socket.shutdown(socket.SHUT_RDWR)

    def __enter__(self) -> Deadline:
        return self

    def __exit__(self, *_: object) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer.join()
        if self._socket is not None:
            self._socket.close()


def secret_of(hook: Webhook) -> str:
    """Derived, so that neither a row nor a backup of the database holds it."""
    text = f"adaexplore_site.webhooks\0{hook.salt}".encode()
    digest = hmac.new(str(settings.SECRET_KEY).encode(), text, hashlib.sha256).digest()
    return "whsec_" + base64.urlsafe_b64encode(digest).decode().rstrip("=")


def signature(secret: str, *, timestamp: int, body: bytes) -> str:
    """`sha256=...`: HMAC-SHA256 over the timestamp, a dot and the body, by the text of the secret."""
    return "sha256=" + hmac.new(secret.encode(), f"{timestamp}.".encode() + body, hashlib.sha256).hexdigest()


log = logging.getLogger(__name__)
LIMIT_S = 5.0  # of one sending, from the look-up of the name to the last byte
MOST_BYTES = 2_000
DELAYS_S = (10, 30, 120, 600, 1800, 7200, 21600)  # between two of the eight tries
MOST = len(DELAYS_S) + 1
LEASE_S = 60.0  # a worker that dies while it sends is followed by another then
BATCH = 50
TURN_S = 10.0  # no sending begins later in a turn: the next turn begins with those that answer
KEPT = timedelta(days=30)
LOST = "It was begun eight times and never came to an end."


@dataclass(frozen=True)
class Answer:
    """What came back: no status when nothing did, and then why."""

    status: int | None
    text: str

    @property
    def taken(self) -> bool:
        return self.status is not None and 200 <= self.status < 300


Post = Callable[[str, bytes, dict[str, str]], Answer]


def deliver_due(*, clock: Callable[[], datetime] = timezone.now, post: Post | None = None) -> int:
    """Send what is due, one row of each webhook after the other; how many were sent.

    Webhooks that do not answer come last and are tried once a call, so that they hold up no other.
    """
    silent, sent, end = set[int](), 0, time.monotonic() + TURN_S
    while rows := _next(clock(), silent):
        for row in rows:
            if sent >= BATCH or time.monotonic() > end:
                return sent
            moment = clock()
            if row.attempts >= MOST:
                _note(row, Answer(None, LOST), moment)
            elif _claim(row, moment):
                sent += 1
                answer = _answer(row, moment, post or send)
                if not answer.taken:
                    silent.add(row.webhook_id)
                _note(row, answer, clock())
    return sent


def deliveries_forget(*, now: datetime) -> int:
    """Forget what was done a month ago; how many rows."""
    return WebhookDelivery.objects.filter(done_at__lt=now - KEPT).delete()[0]


def _next(now: datetime, silent: Collection[int]) -> list[WebhookDelivery]:
    """The oldest due row of each webhook, those first of which nothing waits for another try."""
    waiting = WebhookDelivery.objects.filter(state=WebhookDelivery.State.WAITING)
    due = waiting.expired(now).filter(webhook__on=True).exclude(webhook__in=silent)
    oldest = due.order_by().values("webhook").annotate(first=Min("pk")).values("first")
    failing = Exists(waiting.filter(webhook=OuterRef("webhook"), attempts__gt=0))
    rows = WebhookDelivery.objects.filter(pk__in=oldest).select_related("webhook")
    return list(rows.annotate(failing=failing).order_by("failing", "lease_until", "pk"))


def _answer(row: WebhookDelivery, now: datetime, post: Post) -> Answer:
    """What came of one row: its own fault is its answer and stops no other."""
    try:
        return post(row.webhook.address, *_message(row, now))
    except Exception as error:  # whatever a row makes the sender raise is what came of it
        log.exception("sending %s to webhook %s", row.uid, row.webhook_id)
        return Answer(None, f"{type(error).__name__}: {error}"[:300])


def _claim(row: WebhookDelivery, now: datetime) -> bool:
    """Take the row for a minute; False when another worker has it."""
    mine = WebhookDelivery.objects.filter(pk=row.pk, state=WebhookDelivery.State.WAITING, attempts=row.attempts)
    row.attempts += 1
    return mine.acquire(now=now, for_s=LEASE_S)


def _message(row: WebhookDelivery, now: datetime) -> tuple[bytes, dict[str, str]]:
    """Body and headers. The timestamp is that of this try: a receiver refuses what is old."""
    document = {"id": str(row.uid), "event": row.event, "at": row.created_at.isoformat(), **row.body}
    body, stamp = json.dumps(document, separators=(",", ":")).encode(), int(now.timestamp())
    return body, {
        "Content-Type": "application/json",
        "User-Agent": "AdaExplore-Dashboard",
        "X-AdaExplore-Event": row.event,
        "X-AdaExplore-Delivery": str(row.uid),
        "X-AdaExplore-Timestamp": str(stamp),
        "X-AdaExplore-Signature": signature(secret_of(row.webhook), timestamp=stamp, body=body),
    }


def _note(row: WebhookDelivery, answer: Answer, now: datetime) -> None:
    state, due_at = WebhookDelivery.State.TAKEN, row.lease_until
    if not answer.taken:
        over = row.attempts >= MOST
        state = WebhookDelivery.State.FAILED if over else WebhookDelivery.State.WAITING
        due_at = now + timedelta(seconds=0 if over else DELAYS_S[row.attempts - 1])
    done_at = None if state == WebhookDelivery.State.WAITING else now
    WebhookDelivery.objects.filter(pk=row.pk).update(
        state=state,
        lease_until=due_at,
        status=answer.status,
        answer=storable(answer.text)[:MOST_BYTES],
        done_at=done_at,
    )


def send(address: str, body: bytes, headers: dict[str, str]) -> Answer:
    """POST once: no redirect, no proxy, five seconds in all, two kilobytes of the answer."""
    with Deadline(LIMIT_S) as deadline:
        try:
            target = target_of(address, within_s=LIMIT_S)
            with httpx2.Client(timeout=max(deadline.left_s, 0.1), follow_redirects=False, trust_env=False) as client:
                known = {"sni_hostname": target.name, "trace": deadline.watch}
                request = client.build_request(
                    "POST", target.url, content=body, headers={**headers, "Host": target.host}, extensions=known
                )
                response = client.send(request, stream=True)
                try:
                    return Answer(response.status_code, _beginning(response))
                finally:
                    response.close()
        except BadAddress as refused:
            return Answer(None, str(refused))
        except (httpx2.HTTPError, httpx2.InvalidURL) as error:
            late = deadline.left_s <= 0
            return Answer(
                None, f"No answer within {LIMIT_S:.0f} s." if late else f"{type(error).__name__}: {error}"[:300]
            )


def _beginning(response: httpx2.Response) -> str:
    """As it came, without decompressing: a small body can become a large one. What breaks off is kept as far as it
    came: the status has been heard."""
    found = b""
    with suppress(httpx2.HTTPError):
        for part in response.iter_raw():
            found += part
            if len(found) >= MOST_BYTES:
                break
    return found[:MOST_BYTES].decode("utf-8", "replace")


OBJECT = "webhook"
MOST_HOOKS = 50
SHOWN = 5  # last sendings beside each


@dataclass(frozen=True)
class HookRow:
    """A webhook with its last sendings, the newest first, and how many still wait."""

    hook: Webhook
    last: tuple[WebhookDelivery, ...]
    waiting: int

    @property
    def said(self) -> str:
        """The address for people who may not see what is in it."""
        return said(self.hook.address)


def hook_rows() -> list[HookRow]:
    """All of them. Two queries each: there are few."""
    return [
        HookRow(
            hook,
            tuple(hook.deliveries.all()[:SHOWN]),
            hook.deliveries.filter(state=WebhookDelivery.State.WAITING).count(),
        )
        for hook in Webhook.objects.select_related("owner")[:MOST_HOOKS]
    ]


def webhook_add(*, address: str, events: Collection[str], user: User, key: str | None = None) -> tuple[Webhook, str]:
    """A new webhook and its secret, shown once. Raises ActionRefused for an address that must not be reached."""
    address, wanted = address.strip(), [event for event in EVENTS if event in events]
    if not wanted:
        raise ActionRefused(gettext("Choose at least one event."))
    if len(address) > 500:
        raise ActionRefused(gettext("The address is longer than 500 characters."))
    try:
        parts_of(address)
        target_of(address)
    except BadAddress as error:
        raise ActionRefused(str(error)) from error
    with transaction.atomic():
        if Webhook.objects.count() >= MOST_HOOKS:
            raise ActionRefused(
                gettext("There are %(count)d webhooks already. Remove one first.") % {"count": MOST_HOOKS}
            )
        hook = Webhook.objects.create(address=address, events=wanted, salt=secrets.token_hex(32), owner=user)
        after = {"address": said(address), "events": wanted}
        action_on(verb="webhook.add", on=(OBJECT, hook.pk), user=user, key=key, after=after)
    return hook, secret_of(hook)


def said(address: str) -> str:
    """An address for the audit, which everybody reads: without its query, where others put secrets."""
    try:
        parts = parts_of(address)
    except BadAddress:  # of a row that is older than what is asked of addresses now
        return gettext("an address that is none")
    return f"{parts.scheme}://{parts.netloc}{'/…' if len(parts.path) > 1 or parts.query else ''}"
