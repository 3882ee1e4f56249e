"""Webhooks whose receivers, names or rows are at fault: each holds up itself alone, and no number is a way inside."""

from __future__ import annotations

import ipaddress
import socket
import threading
from datetime import timedelta

import pytest
from django.utils import timezone

from adaexplore_site.core.models import Webhook, WebhookDelivery
from adaexplore_site.tasks import forget_deliveries
from adaexplore_site.webhooks import services
from adaexplore_site.webhooks.services import (
    KEPT,
    MOST,
    Answer,
    BadAddress,
    deliver_due,
    parts_of,
    refusal,
    said,
    send,
    target_of,
)

pytestmark = pytest.mark.django_db
WAITING = WebhookDelivery.State.WAITING


def hook(address: str) -> Webhook:
    return Webhook.objects.create(address=address, events=["test"], salt=address)


def rows(to: Webhook, count: int, lease_until, **more) -> None:
    made = [WebhookDelivery(webhook=to, event="test", lease_until=lease_until, **more) for _ in range(count)]
    WebhookDelivery.objects.bulk_create(made)


@pytest.mark.parametrize(
    ("address", "host"),
    [("http://münchen.example/x", "xn--mnchen-3ya.example"), ("https://ex\u212a.example:8443/", "exk.example:8443")],
)
def test_a_name_in_other_letters_is_sent_as_dns_knows_it(address, host):
    target = target_of(address, resolve=lambda *_: ["93.184.216.34"])
    assert (target.host, target.name) == (host, host.partition(":")[0]) and said(address).startswith(address[:5])


def test_a_name_that_dns_cannot_know_is_refused_and_an_old_row_of_it_is_still_listed():
    with pytest.raises(BadAddress):
        parts_of(f"http://{'ü' * 70}.example/")
    assert said(f"http://{'ü' * 70}.example/") == "an address that is none"


def test_what_one_row_makes_the_sender_raise_is_its_answer_and_stops_no_other():
    now, bad, good = timezone.now(), hook("http://bad.example/"), hook("http://good.example/")
    rows(bad, 1, now - timedelta(minutes=1)), rows(good, 1, now)

    def post(address, *_):
        if "bad" in address:
            raise LookupError("no such page of code")
        return Answer(204, "")

    assert deliver_due(clock=lambda: now, post=post) == 2 and good.deliveries.get().state == "taken"
    assert (bad.deliveries.get().state, bad.deliveries.get().attempts) == (WAITING, 1)
    assert "no such page of code" in bad.deliveries.get().answer


def test_a_row_that_was_begun_as_often_as_may_be_has_failed():
    now, one = timezone.now(), hook("http://one.example/")
    rows(one, 1, now, attempts=MOST)
    assert deliver_due(clock=lambda: now, post=None) == 0
    assert (one.deliveries.get().state, one.deliveries.get().attempts) == ("failed", MOST)


def test_many_rows_for_the_dead_delay_none_for_the_living():
    now = timezone.now()
    dead = [hook(f"http://dead{n}.example/") for n in range(3)]
    for one in dead:
        rows(one, 60, now - timedelta(minutes=5))
    good, seen = hook("http://good.example/"), []
    rows(good, 3, now)

    def post(address, *_):
        seen.append(address)
        return Answer(204 if "good" in address else None, "")

    assert deliver_due(clock=lambda: now, post=post) == 6
    assert not good.deliveries.filter(state=WAITING).exists()
    rows(good, 1, now)
    deliver_due(clock=lambda: now, post=post)
    assert seen[6:] == ["http://good.example/", *(one.address for one in dead)]


def test_the_time_of_a_sending_is_its_own_and_a_turn_ends(monkeypatch):
    ticks = iter(range(100))
    start = timezone.now()
    rows(one := hook("http://one.example/"), 3, start)
    deliver_due(clock=lambda: start + timedelta(minutes=next(ticks)), post=lambda *_: Answer(200, ""))
    assert len({row.done_at for row in one.deliveries.all()}) == 3
    rows(one, 1, start)
    monkeypatch.setattr(services, "TURN_S", -1.0)
    assert deliver_due(post=lambda *_: Answer(200, "")) == 0


@pytest.mark.parametrize("said_first", [b"HTTP/1.1 200 OK\r\nX-A: ", b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n"])
def test_what_trickles_in_ends_at_the_limit(monkeypatch, said_first):
    monkeypatch.setenv("ADAEXPLORE_WEBHOOK_PRIVATE", "1")
    monkeypatch.setattr(services, "LIMIT_S", 2.0)  # far more than a head takes, far less than the body
    server = socket.create_server(("127.0.0.1", 0))
    over, exhausted = threading.Event(), threading.Event()

    def trickle() -> None:
        with server.accept()[0] as one:
            one.sendall(said_first)
            try:
                for _ in range(90):  # of the 99 that it promised
                    if over.wait(0.05):
                        return
                    one.sendall(b"b")
            except OSError:
                return
        exhausted.set()

    (thread := threading.Thread(target=trickle)).start()
    answer = send(f"http://127.0.0.1:{server.getsockname()[1]}/", b"{}", {})
    waited_for_all = exhausted.is_set()
    over.set(), thread.join(), server.close()
    assert not waited_for_all and answer.status == (200 if b"99" in said_first else None)


def test_a_name_that_nobody_answers_for_is_given_up():
    over = threading.Event()
    with pytest.raises(BadAddress, match="in time"):
        target_of("http://slow.example/", resolve=lambda *_: [str(over.wait(5))], within_s=0.01)
    over.set()


@pytest.mark.parametrize("private", [False, True])
@pytest.mark.parametrize(
    "number",
    ["169.254.169.254", "fd00:ec2::254", "168.63.129.16", "192.0.0.192", "192.0.0.9", "240.0.0.1", "0.0.0.1",
     "::7f00:1", "::a9fe:a9fe", "fec0::1", "64:ff9b:1::7f00:1", "::ffff:0:127.0.0.1", "::ffff:168.63.129.16",
     "100.100.100.200"],
)  # fmt: skip
def test_numbers_behind_which_others_stand_are_never_sent_to(number, private):
    assert refusal(ipaddress.ip_address(number), private=private)


def test_this_machine_can_be_allowed_by_both_of_its_numbers():
    assert not any(refusal(ipaddress.ip_address(number), private=True) for number in ("127.0.0.1", "::1", "fd12::1"))


def test_what_was_done_long_ago_is_forgotten_by_a_task_of_its_own(settings):
    assert forget_deliveries.name in {entry["task"] for entry in settings.CELERY_BEAT_SCHEDULE.values()}
    rows(one := hook("http://one.example/"), 1, timezone.now(), done_at=timezone.now() - 2 * KEPT, state="taken")
    rows(one, 1, timezone.now(), done_at=timezone.now(), state="taken")
    forget_deliveries()
    assert one.deliveries.count() == 1
