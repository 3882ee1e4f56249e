"""Send what is due: each row by one worker at a time, again and again with growing delay, at most eight times."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta

import httpx2
from django.db.models import F

from adaexplore_site.models import WebhookDelivery
from adaexplore_site.untrusted import storable
from adaexplore_site.webhooks.guarding import BadAddress, target_of
from adaexplore_site.webhooks.signing import secret_of, signature

LIMIT_S = 5.0
MOST_BYTES = 2_000
DELAYS_S = (10, 30, 120, 600, 1800, 7200, 21600)  # between two of the eight tries
MOST = len(DELAYS_S) + 1
LEASE = timedelta(seconds=60)  # a worker that dies while it sends is followed by another then
BATCH = 10
KEPT = timedelta(days=30)


@dataclass(frozen=True)
class Answer:
    """What came back: no status when nothing did, and then why."""

    status: int | None
    text: str

    @property
    def taken(self) -> bool:
        return self.status is not None and 200 <= self.status < 300


Post = Callable[[str, bytes, dict[str, str]], Answer]


def deliver_due(*, now: datetime, post: Post | None = None) -> int:
    """Send what is due, the oldest first; how many were sent. An address that does not answer is tried once a call."""
    due = WebhookDelivery.objects.filter(state=WebhookDelivery.State.WAITING, due_at__lte=now, webhook__on=True)
    silent, sent = set[int](), 0
    for row in due.select_related("webhook").order_by("due_at", "id")[:BATCH]:
        if row.webhook_id in silent or not _claim(row, now):
            continue
        sent += 1
        answer = (post or send)(row.webhook.address, *_message(row, now))
        if not answer.taken:
            silent.add(row.webhook_id)
        _note(row, answer, now)
    if sent:
        WebhookDelivery.objects.filter(done_at__lt=now - KEPT).delete()
    return sent


def _claim(row: WebhookDelivery, now: datetime) -> bool:
    """Take the row for a minute; False when another worker has it."""
    mine = WebhookDelivery.objects.filter(pk=row.pk, state=WebhookDelivery.State.WAITING, tries=row.tries)
    row.tries += 1
    return bool(mine.update(tries=F("tries") + 1, due_at=now + LEASE))


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
    state, due_at = WebhookDelivery.State.TAKEN, row.due_at
    if not answer.taken:
        over = row.tries >= MOST
        state = WebhookDelivery.State.FAILED if over else WebhookDelivery.State.WAITING
        due_at = now + timedelta(seconds=0 if over else DELAYS_S[row.tries - 1])
    done_at = None if state == WebhookDelivery.State.WAITING else now
    WebhookDelivery.objects.filter(pk=row.pk).update(
        state=state, due_at=due_at, status=answer.status, answer=storable(answer.text)[:MOST_BYTES], done_at=done_at
    )


def send(address: str, body: bytes, headers: dict[str, str]) -> Answer:
    """POST once: no redirect, no proxy, five seconds in all, two kilobytes of the answer."""
    end = time.monotonic() + LIMIT_S
    try:
        target = target_of(address)
        with httpx2.Client(timeout=LIMIT_S, follow_redirects=False, trust_env=False) as client:
            known = {"sni_hostname": target.name}
            request = client.build_request(
                "POST", target.url, content=body, headers={**headers, "Host": target.host}, extensions=known
            )
            response = client.send(request, stream=True)
            try:
                return Answer(response.status_code, _beginning(response, end))
            finally:
                response.close()
    except BadAddress as refused:
        return Answer(None, str(refused))
    except (httpx2.HTTPError, httpx2.InvalidURL) as error:
        return Answer(None, f"{type(error).__name__}: {error}"[:300])


def _beginning(response: httpx2.Response, end: float) -> str:
    """As it came, without decompressing: a small body can become a large one."""
    found = b""
    for part in response.iter_raw(512):
        found += part
        if len(found) >= MOST_BYTES or time.monotonic() > end:
            break
    return found[:MOST_BYTES].decode("utf-8", "replace")
