"""Send what is due: each row by one worker at a time, again and again with growing delay, at most eight times."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta

import httpx2
from django.db.models import Exists, Min, OuterRef
from django.utils import timezone

from adaexplore_site.core.untrusted import storable
from adaexplore_site.core.webhook_models import WebhookDelivery
from adaexplore_site.webhooks.deadlines import Deadline
from adaexplore_site.webhooks.guarding import BadAddress, target_of
from adaexplore_site.webhooks.signing import secret_of, signature

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
    state, lease_until = WebhookDelivery.State.TAKEN, row.lease_until
    if not answer.taken:
        over = row.attempts >= MOST
        state = WebhookDelivery.State.FAILED if over else WebhookDelivery.State.WAITING
        lease_until = now + timedelta(seconds=0 if over else DELAYS_S[row.attempts - 1])
    done_at = None if state == WebhookDelivery.State.WAITING else now
    WebhookDelivery.objects.filter(pk=row.pk).update(
        state=state,
        lease_until=lease_until,
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
