"""What an adapt run causes is in its books: preflights, lessons of a model; what nobody knows stays unknown."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal
from functools import partial
from io import StringIO

import pytest
from django.core.management import call_command
from django.utils import timezone

from adaexplore_site.core.text import counted
from memory.adapt.models import AdaptRun
from memory.distil.distillers import ModelDistiller
from memory.distil.services import failure_learn
from memory.failures.models import Failure
from search.batches.adapt_results import adapt_document, effect_lines
from search.batches.adapts import ADAPTS
from search.batches.budgets import room_of, spent_of, used_facts
from search.engine.spending import adapt_call_add
from search.ledger.models import Spending
from search.management.commands import learn
from tests.memory.distil.test_distillers import FakeChat, learned
from tests.memory.failure_rows import DTYPE, UNKNOWN
from tests.pages import client_of
from tests.search.adapt_rows import AdaptWorker, make_adapt
from tests.search.fakes import wrong

CHARGED = partial(adapt_call_add, kind=Spending.Kind.LESSON)
pytestmark = pytest.mark.django_db


def slow_worker(seconds: float) -> AdaptWorker:
    """Its preflights take so long."""
    worker = AdaptWorker()
    admit = worker.bench.admit

    def slowly(problem, **given):
        worker.now += timedelta(seconds=seconds)
        return admit(problem, **given)

    worker.bench.admit = slowly
    return worker


def test_preflights_are_device_time_and_shown():
    worker = slow_worker(30)
    adapt = worker.complete(make_adapt(tasks=2))
    spent, done = spent_of(adapt), worker.bench.admitted
    assert done >= 2 and (spent.preflight_s, spent.unclocked) == (30.0 * done, 0)
    assert spent.device_s >= spent.preflight_s
    assert adapt_document(adapt)["spent"]["preflight_s"] == spent.preflight_s
    page = " ".join(client_of("viewer", "vera").get(f"/adapt/{adapt.pk}/").content.decode().split())
    assert "of it for preflights" in page and "unknown time" not in page


def test_a_preflight_of_another_adapt_run_is_not_paid_twice():
    worker = slow_worker(30)
    worker.complete(make_adapt(tasks=1))
    again = worker.complete(make_adapt(tasks=1))
    assert (spent_of(again).preflight_s, spent_of(again).unclocked) == (0.0, 0)


@pytest.mark.parametrize(("seconds", "limit"), [(100, 300), (119, 500)])
def test_preflights_never_pass_the_limit_of_device_time(seconds, limit):
    worker = slow_worker(seconds)
    adapt = worker.complete(make_adapt(tasks=9, limits={"device_s": limit}))
    assert adapt.entries.filter(state="started").exists() and spent_of(adapt).preflight_s > 0
    assert spent_of(adapt).device_s <= limit
    assert adapt.stop_reason.startswith("The limit of device seconds leaves no room for another")


def test_a_preflight_that_was_asked_for_holds_its_time():
    adapt, worker = make_adapt(limits={"device_s": 370}), AdaptWorker()
    follow_ups = [follow_up for first in ADAPTS.advance(adapt.pk) for follow_up in worker.do(first)]
    assert [follow_up.task for follow_up in follow_ups] == [
        "admit_task"
    ] * 2  # of three tasks: a third one would not fit
    assert room_of(adapt, timezone.now())["device_s"] == 130


def test_a_preflight_whose_process_died_has_no_known_time():
    adapt, worker = make_adapt(tasks=1), AdaptWorker()
    follow_up = next(follow_up for first in ADAPTS.advance(adapt.pk) for follow_up in worker.do(first))
    admit = worker.bench.admit

    def killed(problem, **given):
        raise KeyboardInterrupt

    worker.bench.admit = killed
    with pytest.raises(KeyboardInterrupt):
        ADAPTS.admit(follow_up.target, bench_for=worker.bench, clock=worker.clock)
    worker.bench.admit = admit
    ADAPTS.admit(follow_up.target, bench_for=worker.bench, clock=worker.clock, since=timezone.now())
    adapt = worker.complete(adapt)
    assert spent_of(adapt).unclocked == 1
    page = " ".join(client_of("viewer", "vera").get(f"/adapt/{adapt.pk}/").content.decode().split())
    assert "at least" in page and "1 preflight of unknown time" in page


def failing(message: str, **changes) -> tuple[AdaptRun, Failure]:
    """An adapt run with one failure that nobody has learned from."""
    worker = AdaptWorker()
    worker.bench.outcomes = {0: wrong()}
    adapt = worker.complete(make_adapt(tasks=1, **changes))
    failure = Failure.objects.filter(run__adapt_task__adapt=adapt).first()
    said = {"verdict": "crashed", "stage": "smoke", "reason": "run.exception"}
    Failure.objects.exclude(pk=failure.pk).delete()
    Failure.objects.update(lesson="", message=message, **said)
    return adapt, failure


@pytest.mark.parametrize(("message", "calls"), [(UNKNOWN, 1), (DTYPE, 0)])
def test_what_a_model_took_to_distil_a_failure_counts_once(message, calls):
    adapt, failure = failing(message)
    before, distiller = spent_of(adapt), ModelDistiller(FakeChat(learned()))
    for _ in range(2):
        failure_learn(failure_id=failure.pk, distiller=distiller, charged=CHARGED)
    now = spent_of(adapt)
    assert (now.preflight_s, now.device_s) == (before.preflight_s, before.device_s)
    assert (now.booked.calls, now.booked.unpriced) == (before.booked.calls + calls, before.booked.unpriced + calls)
    assert now.booked.tokens == before.booked.tokens + 7 * calls


@pytest.mark.parametrize(("usd", "unpriced"), [("0.25", 0), (None, 1)])
def test_its_price_counts_where_somebody_knows_it(usd, unpriced):
    adapt, failure = failing(UNKNOWN)
    before, bill = spent_of(adapt), {"model": "m", "tokens_in": None, "tokens_out": 4, "usd": usd}
    distiller = ModelDistiller(FakeChat(learned()), bill=lambda answer: bill)
    failure_learn(failure_id=failure.pk, distiller=distiller, charged=CHARGED)
    spent, was = spent_of(adapt).booked, before.booked
    assert spent.usd - was.usd == Decimal(usd or 0)
    assert (spent.unpriced - was.unpriced, spent.untold - was.untold) == (unpriced, 1)
    line = effect_lines(adapt_document(adapt))[1]
    assert f"at least {spent.tokens} tokens (1 call without a token count)" in line
    assert f"at least ${spent_of(adapt).to_json()['usd']} ({counted(spent.unpriced, 'call')} unpriced)" in line


@pytest.mark.parametrize(("limits", "asked"), [({"tokens": 60_000}, 1), ({"tokens": 1}, 0), ({}, 1)])
def test_the_command_asks_no_model_where_the_limits_have_no_room(limits, asked, monkeypatch):
    adapt, failure = failing(UNKNOWN)
    AdaptRun.objects.filter(pk=adapt.pk).update(limits=limits)
    chat, out = FakeChat(learned()), StringIO()
    monkeypatch.setattr(learn, "_distiller", lambda **given: ModelDistiller(chat))
    call_command("learn", "--all", "--model", stdout=out)
    assert len(chat.asked) == asked and f"; {1 - asked} left for later" in out.getvalue()
    failure.refresh_from_db()
    assert failure.lesson == ("rule" if asked else "")


def test_a_price_that_vanishes_pauses_the_run_until_somebody_gives_one():
    adapt, worker = make_adapt(tasks=1), AdaptWorker()
    AdaptRun.objects.filter(pk=adapt.pk).update(limits={"usd": "5"}, proposer_options={"model": "gone"})
    assert worker.beat() == []  # the beat itself goes on
    adapt.refresh_from_db()
    assert adapt.state == "paused" and "gone has no known price any more" in adapt.stop_reason
    assert "Set a price on the page Spend" in adapt.stop_reason and not adapt.entries.exists()
    operator = client_of("operator")
    operator.post("/spend/prices", {"model": "gone", "usd_per_m_in": "1", "usd_per_m_out": "1"})
    ADAPTS.resume(adapt, user=None)
    assert worker.beat() != []
    adapt.refresh_from_db()
    assert (adapt.state, adapt.stop_reason) == ("running", "")


def test_without_a_price_a_failure_waits_and_no_model_is_asked(monkeypatch):
    adapt, _ = failing(UNKNOWN)
    AdaptRun.objects.filter(pk=adapt.pk).update(limits={"usd": "5"}, proposer_options={"model": "gone"})
    chat, out = FakeChat(learned()), StringIO()
    monkeypatch.setattr(learn, "_distiller", lambda **given: ModelDistiller(chat))
    call_command("learn", "--all", "--model", stdout=out)
    assert chat.asked == [] and "1 left for later" in out.getvalue()


@pytest.mark.parametrize(("tokens", "said"), [(1, "1 token"), (2, "2 tokens")])
def test_tokens_of_a_run_are_counted_in_words(tokens, said):
    adapt = make_adapt(tasks=1)
    CHARGED(adapt.pk, {"model": "m", "tokens_in": tokens, "tokens_out": 0, "usd": "0.5"})
    cost = dict(used_facts(adapt))["Cost"]
    assert cost.split(", ")[1] == said
