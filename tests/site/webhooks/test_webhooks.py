"""Webhooks: rows with the event, signed, sent until taken, never into a private network."""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import json
import threading
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
from django.contrib.auth.models import User
from django.db import transaction
from django.utils import timezone

from adaexplore_site.core.audit import ActionRefused
from adaexplore_site.core.models import AuditEntry, Webhook, WebhookDelivery
from adaexplore_site.core.outbox import BEST, BUDGET, EVENTS, FINISHED, REVIEWS
from adaexplore_site.tasks import deliver_webhooks
from adaexplore_site.webhooks import services
from adaexplore_site.webhooks.services import (
    DELAYS_S,
    MOST,
    Answer,
    BadAddress,
    deliver_due,
    parts_of,
    refusal,
    secret_of,
    send,
    target_of,
)
from memory.prompting.scopes import Scope
from memory.rules.models import Rule
from search.engine.completion import run_end
from search.interchange.imports import search_import
from search.ledger.limits import Stop
from search.records.models import Run
from tests.memory.decisions import rule_create
from tests.pages import client_of
from tests.search.live_rows import grow, new_best
from tests.search.makers import make_run
from tests.search.recorded import packed, step

pytestmark = pytest.mark.django_db
PUBLIC = "https://93.184.216.34/hook"


@pytest.fixture
def hook() -> Webhook:
    return Webhook.objects.create(address=PUBLIC, events=list(EVENTS), salt="salt")


def events() -> list[str]:
    return list(WebhookDelivery.objects.order_by("id").values_list("event", flat=True))


def test_what_happens_to_a_search_is_written_for_those_who_asked(hook):
    quiet = Webhook.objects.create(address=PUBLIC, events=[BUDGET], salt="other")
    Webhook.objects.create(address=PUBLIC, events=list(EVENTS), salt="off", on=False)
    run = make_run(title="nightly")
    new_best(grow(run, speedup=2.0))
    with transaction.atomic():
        run_end(run=run, state=Run.State.FINISHED, reason="", now=timezone.now(), stop=Stop("tokens", "spent"))
    assert sorted(events()) == sorted([BEST, FINISHED, BUDGET, BUDGET])
    assert quiet.deliveries.count() == 1
    best = hook.deliveries.get(event=BEST).body
    assert (best["best"]["speedup"], best["best"]["basis"], best["search"]["title"]) == (2.0, "MODELLED", "nightly")


def test_searches_of_adapt_runs_are_told_to_nobody(hook):
    run = make_run(origin=Run.Origin.ADAPT)
    new_best(grow(run, speedup=2.0))
    assert events() == []


def test_an_event_that_is_taken_back_is_not_sent(hook):
    run = make_run()
    with pytest.raises(RuntimeError), transaction.atomic():
        run_end(run=run, state=Run.State.FINISHED, reason="", now=timezone.now())
        raise RuntimeError
    assert events() == []


def test_an_import_tells_nobody(hook):
    search_import(data=packed([step(1, 0), step(2, 1, kind="small_step", fast_p=2.0)], label="x"), name="r.json")
    assert events() == []


def test_rules_that_wait_are_told_of_once_an_hour(hook):
    for text in ("Do not call tl.cumprod in a loop.", "Mask every tl.load at the edge."):
        rule_create(text=text, scope=Scope(), user=None)
    assert Rule.objects.count() == 2 and events() == [REVIEWS]
    WebhookDelivery.objects.update(created_at=timezone.now() - timedelta(hours=2))
    rule_create(text="Use tl.dot for matrix products.", scope=Scope(), user=None)
    assert events() == [REVIEWS, REVIEWS]


class Receiver:
    """Answers as told, and keeps what it got."""

    def __init__(self, *statuses: int | None) -> None:
        self.statuses, self.got = list(statuses), []

    def __call__(self, address: str, body: bytes, headers: dict[str, str]) -> Answer:
        self.got.append((body, headers))
        return Answer(self.statuses.pop(0), "said")


def due(hook: Webhook, now) -> WebhookDelivery:
    return WebhookDelivery.objects.create(webhook=hook, event="test", body={"a": 1}, lease_until=now)


def test_what_is_not_taken_is_sent_again_with_growing_delay_and_then_given_up(hook):
    now = timezone.now()
    row, receiver = due(hook, now), Receiver(*[500] * 7, None)
    for tries in range(1, MOST + 1):
        assert deliver_due(clock=lambda at=now: at, post=receiver) == 1
        row.refresh_from_db()
        assert row.attempts == tries and deliver_due(clock=lambda at=now: at, post=receiver) == 0
        now = row.lease_until
    assert (row.state, row.status, row.answer, MOST) == ("failed", None, "said", 8)
    assert sum(DELAYS_S) > 8 * 3600 and len({headers["X-AdaExplore-Delivery"] for _, headers in receiver.got}) == 1


def test_a_sending_that_is_taken_is_done_and_a_silent_address_holds_up_no_other(hook):
    other, now = Webhook.objects.create(address=PUBLIC, events=[], salt="b"), timezone.now()
    rows = [due(hook, now), due(hook, now), due(other, now)]
    assert deliver_due(clock=lambda: now, post=Receiver(None, 204)) == 2
    assert [WebhookDelivery.objects.get(pk=row.pk).state for row in rows] == ["waiting", "waiting", "taken"]
    assert WebhookDelivery.objects.get(pk=rows[1].pk).attempts == 0
    Webhook.objects.update(on=False)
    assert deliver_due(clock=lambda: now + timedelta(days=1), post=Receiver()) == 0


def test_two_workers_send_a_row_once(hook):
    now = timezone.now()
    due(hook, now)
    second = Receiver()

    def first(*_) -> Answer:
        assert deliver_due(clock=lambda: now, post=second) == 0
        return Answer(200, "")

    assert deliver_due(clock=lambda: now, post=first) == 1 and second.got == []


@pytest.mark.parametrize(
    "number",
    ["127.0.0.1", "10.1.2.3", "192.168.0.1", "172.16.9.9", "169.254.169.254", "0.0.0.0", "100.64.0.1", "224.0.0.1",
     "::1", "fe80::1", "fc00::1", "::ffff:127.0.0.1", "2002:7f00:1::", "64:ff9b::a00:1", "::"],
)  # fmt: skip
def test_numbers_of_this_machine_and_private_networks_are_refused(number):
    assert refusal(ipaddress.ip_address(number), private=False)
    with pytest.raises(BadAddress, match="Nothing is sent there"):
        target_of("http://name.example/", resolve=lambda *_: ["93.184.216.34", number])


def test_a_setting_allows_private_networks_but_never_link_local_ones(monkeypatch):
    monkeypatch.setenv("ADAEXPLORE_WEBHOOK_PRIVATE", "1")
    assert target_of("http://intern:8080/a?b=1", resolve=lambda *_: ["10.0.0.7"]).url == "http://10.0.0.7:8080/a?b=1"
    with pytest.raises(BadAddress):
        target_of("http://meta/", resolve=lambda *_: ["169.254.169.254"])


def test_the_checked_number_is_the_one_that_is_connected_to():
    target = target_of("https://hooks.example/x", resolve=lambda *_: ["2606:2800:220:1::1"])
    assert (target.url, target.host, target.name) == (
        "https://[2606:2800:220:1::1]:443/x",
        "hooks.example",
        "hooks.example",
    )


@pytest.mark.parametrize(
    "address",
    ["", "ftp://a.b/", "file:///etc/passwd", "http://u:p@93.184.216.34/", "http://[::1", "http://93.184.216.34:99999/",
     "http://localhost:8000/", "http://127.1/", "http://2130706433/", "http://a b/", "//93.184.216.34"],
)  # fmt: skip
def test_an_address_that_must_not_be_is_refused_when_it_is_added(address):
    user = User.objects.create_superuser("root")
    with pytest.raises(ActionRefused):
        services.webhook_add(address=address, events=[FINISHED], user=user)
    assert not Webhook.objects.exists() and not AuditEntry.objects.exists()


class Handler(BaseHTTPRequestHandler):
    """Keeps the request, answers with a redirect and a long body."""

    got: list[tuple[dict[str, str], bytes]] = []

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.got.append((dict(self.headers), body))
        self.send_response(302)
        self.send_header("Location", "/elsewhere")
        self.send_header("Content-Length", "9000")
        self.end_headers()
        self.wfile.write(b"x" * 9000)

    def log_message(self, *_) -> None:
        pass


def test_a_sending_is_signed_follows_no_redirect_and_keeps_little_of_the_answer(hook, monkeypatch):
    monkeypatch.setenv("ADAEXPLORE_WEBHOOK_PRIVATE", "1")
    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.handle_request)
    thread.start()
    hook.address = f"http://localhost:{server.server_port}/hook"
    hook.save()
    row = due(hook, timezone.now())
    assert deliver_due() == 1
    thread.join(5)
    server.server_close()
    ((headers, body),) = Handler.got
    text = f"{headers['X-AdaExplore-Timestamp']}.".encode() + body
    expected = hmac.new(secret_of(hook).encode(), text, hashlib.sha256).hexdigest()
    assert headers["X-AdaExplore-Signature"] == f"sha256={expected}" and json.loads(body)["id"] == str(row.uid)
    row.refresh_from_db()
    assert (row.status, row.state, len(row.answer)) == (302, "waiting", 2000)
    assert headers["Host"] == f"localhost:{server.server_port}"


def test_an_address_that_has_become_private_is_not_sent_to():
    answer = send("http://127.0.0.1:1/", b"{}", {})
    assert answer.status is None and "this machine" in answer.text


def test_the_task_that_beat_calls_sends_what_is_due_once(hook, settings):
    named = {entry["task"] for entry in settings.CELERY_BEAT_SCHEDULE.values()}
    assert deliver_webhooks.name in named
    Webhook.objects.update(address="http://127.0.0.1:1/")
    row = due(hook, timezone.now())
    deliver_webhooks()
    deliver_webhooks()
    row.refresh_from_db()
    assert (row.attempts, row.state) == (1, "waiting") and "this machine" in row.answer


def test_an_admin_adds_tries_switches_and_removes_one():
    admin = client_of("admin")
    form = {"address": PUBLIC + "?token=t", "event": [FINISHED], "key": "k"}
    assert 'action="/settings/webhooks/add"' in admin.get("/settings/webhooks/").content.decode()
    page = admin.post("/settings/webhooks/add", form).content.decode()
    hook = Webhook.objects.get()
    assert secret_of(hook) in page and secret_of(hook) not in admin.get("/settings/webhooks/").content.decode()
    assert admin.post("/settings/webhooks/add", form).status_code == 409 and Webhook.objects.count() == 1
    at = f"/settings/webhooks/{hook.pk}"
    assert f'action="{at}/test"' in admin.get("/settings/webhooks/").content.decode()
    assert admin.post(f"{at}/test", {"key": "t"}).status_code == 302 and events() == ["test"]
    assert admin.post(f"{at}/switch", {"on": ""}).status_code == 302
    assert admin.post(f"{at}/test").status_code == 409
    assert "Remove this webhook?" in admin.post(f"{at}/remove").content.decode() and Webhook.objects.exists()
    assert admin.post(f"{at}/remove", {"sure": "1"}).status_code == 302 and not Webhook.objects.exists()
    verbs = set(AuditEntry.objects.values_list("verb", flat=True))
    assert verbs == {"webhook.add", "webhook.test", "webhook.off", "webhook.remove"}
    assert "token=t" not in client_of("viewer").get("/activity/").content.decode()


@pytest.mark.parametrize(("address", "netloc"), [
    ("https://hooks.example:8443/x", "hooks.example:8443"),
    ("http://[2001:db8::1]:8080/x", "[2001:db8::1]:8080"),
    ("https://Bücher.example/x", "xn--bcher-kva.example"),
    ("https://bücher.example:8443/x", "xn--bcher-kva.example:8443"),
])  # fmt: skip
def test_the_host_is_sent_as_written_and_in_ascii_where_it_is_not(address, netloc):
    assert parts_of(address).netloc == netloc


def test_many_webhooks_are_asked_for_with_one_query(django_assert_num_queries):
    for place in range(3):
        due(Webhook.objects.create(address=f"{PUBLIC}{place}", events=[], salt=str(place)), timezone.now())
    with django_assert_num_queries(1):
        addresses = {row.webhook.address for row in services._next(timezone.now(), ())}
    assert addresses == {f"{PUBLIC}{place}" for place in range(3)}


def test_others_see_neither_query_nor_answer_of_a_webhook(hook):
    Webhook.objects.update(address=PUBLIC + "?token=tok-3n")
    row = due(hook, timezone.now())
    WebhookDelivery.objects.filter(pk=row.pk).update(status=500, answer="inner words")
    html = client_of("viewer").get("/settings/webhooks/").content.decode()
    assert "tok-3n" not in html and "inner words" not in html and "500" in html and "<form" not in html.split("<h2")[1]
