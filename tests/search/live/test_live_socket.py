"""The run's websocket: order, gaps, resume, pause, back-pressure, and who may hold one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
from channels.layers import get_channel_layer
from daphne.ws_protocol import WebSocketProtocol
from django.contrib.auth.models import AnonymousUser
from django.db import InterfaceError
from django.db.models import F

from search.live import frames
from search.live.hub import Hubs, Pace
from search.live.socket import GONE, INTERNAL, NOT_ALLOWED, OLD_CLIENT, POLICY, SIGNED_OUT, SLOW
from search.records.models import Run
from tests.search.live_rows import HINTS_ONLY, LONG_S, QUICK, Browser, close, grow, rows, run_and_user

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
async def hubs() -> AsyncIterator[Hubs]:
    made = Hubs(QUICK)
    yield made
    await close(made)


async def hint(run: Run) -> None:
    seq = await rows(lambda: Run.objects.get(pk=run.pk).event_seq)
    await get_channel_layer().group_send(f"run.{run.pk}", {"type": "run.hint", "run": run.pk, "seq": seq})


async def test_a_new_socket_is_told_the_head_and_gets_all_events_in_one_frame(hubs):
    run, user = await run_and_user()
    await rows(grow, run)
    browser = Browser(hubs, run.pk, user)
    hello = await browser.open()
    frame = await browser.next("frame")
    assert (hello["run"], hello["head"]) == (run.pk, 3)
    assert (frame["from"], frame["to"], frame["head"]) == (0, 3, 3)
    assert frame["nodes"]["n"] == [1]
    await browser.leave()


async def test_a_socket_that_names_its_cursor_gets_nothing_twice(hubs):
    run, user = await run_and_user()
    await rows(grow, run)
    browser = Browser(hubs, run.pk, user, "since=3&v=1")
    await browser.open()
    assert await browser.silent()
    await rows(grow, run)
    frames = await browser.until(5)
    assert frames[0]["from"] == 3
    assert {number for frame in frames for number in frame["nodes"]["n"]} == {2}
    await browser.leave()


async def test_a_hint_brings_an_event_without_waiting_for_the_timer():
    hubs = Hubs(HINTS_ONLY, layer=get_channel_layer)
    run, user = await run_and_user()
    browser = Browser(hubs, run.pk, user, "since=1&v=1")
    await browser.open()
    await rows(grow, run)
    await hint(run)
    assert (await browser.next("frame"))["to"] == 3
    await browser.leave()
    await close(hubs)


async def test_events_arrive_when_the_channel_layer_is_down():
    class Down:
        async def new_channel(self) -> str:
            raise ConnectionRefusedError("no server")

    hubs = Hubs(QUICK, layer=Down)
    run, user = await run_and_user()
    browser = Browser(hubs, run.pk, user, "since=1&v=1")
    await browser.open()
    await rows(grow, run)
    assert (await browser.until(3))[-1]["nodes"]["n"] == [1]
    await browser.leave()
    await close(hubs)


async def test_a_gap_of_more_than_two_thousand_events_sends_the_browser_to_the_snapshot(hubs):
    run, user = await run_and_user()
    await rows(lambda: Run.objects.filter(pk=run.pk).update(event_seq=frames.MAX_GAP + 2))
    browser = Browser(hubs, run.pk, user, "since=1&v=1")
    await browser.open()
    assert (await browser.next("resync"))["head"] == frames.MAX_GAP + 2
    assert await browser.silent()  # nothing until the browser says where it stands
    await rows(lambda: Run.objects.filter(pk=run.pk).update(event_seq=F("event_seq") - frames.MAX_GAP - 1))
    await browser.leave()


async def test_a_browser_ahead_of_the_server_is_sent_to_the_snapshot(hubs):
    run, user = await run_and_user()
    browser = Browser(hubs, run.pk, user, "since=0&v=1")
    await browser.open()
    await browser.next("frame")
    other = Browser(hubs, run.pk, user, "since=99&v=1")
    await other.open()
    await rows(grow, run)
    assert await other.silent()  # 99 is beyond the head: nothing is new there
    await other.send("resume", since=0)
    assert (await other.next("frame"))["from"] == 0
    await browser.leave()
    await other.leave()


async def test_an_unacknowledged_socket_gets_two_frames_and_then_one_that_merges_the_rest(hubs):
    run, user = await run_and_user()
    browser = Browser(hubs, run.pk, user)
    await browser.open()
    first = await browser.next("frame")
    await rows(grow, run)
    second = await browser.next("frame")
    for _ in range(3):
        await rows(grow, run)
    assert await browser.silent()
    await browser.ack(first)
    merged = await browser.next("frame")
    assert (merged["from"], merged["to"], merged["nodes"]["n"][-3:]) == (second["to"], 9, [2, 3, 4])
    await browser.leave()


async def test_a_browser_that_never_acknowledges_is_closed_as_slow():
    hubs = Hubs(Pace(frame_s=0.01, poll_s=0.05, beat_s=0.05, ack_s=0.05))
    run, user = await run_and_user()
    browser = Browser(hubs, run.pk, user)
    await browser.open()
    await browser.next("frame")
    output = await browser.line.receive_output(timeout=LONG_S)
    while output["type"] == "websocket.send":  # beats
        output = await browser.line.receive_output(timeout=LONG_S)
    assert output["code"] == SLOW
    await close(hubs)


async def test_a_paused_socket_is_sent_counts_and_on_resume_all_it_missed(hubs):
    run, user = await run_and_user()
    browser = Browser(hubs, run.pk, user, "since=1&v=1")
    await browser.open()
    await browser.send("pause")
    await rows(grow, run)
    count = await browser.next("paused")
    while count["new"] < 2:
        count = await browser.next("paused")
    assert await browser.silent()
    await browser.send("resume", since=1)
    frame = await browser.next("frame")
    assert (frame["from"], frame["to"]) == (1, 3)
    await browser.leave()


async def test_resume_from_an_older_cursor_sends_the_gap_again(hubs):
    run, user = await run_and_user()
    await rows(grow, run)
    browser = Browser(hubs, run.pk, user)
    await browser.open()
    await browser.next("frame")
    await browser.send("resume", since=1)
    again = await browser.next("frame")
    assert (again["from"], again["to"]) == (1, 3)
    await browser.leave()


async def test_sockets_at_one_cursor_share_one_build_and_the_same_bytes():
    built: list[int] = []

    def counted(run_id: int, since: int) -> frames.Frame:
        built.append(since)
        return frames.build(run_id, since)

    hubs = Hubs(HINTS_ONLY, layer=get_channel_layer, build=counted)
    run, user = await run_and_user()
    browsers = [Browser(hubs, run.pk, user, "since=1&v=1") for _ in range(5)]
    for browser in browsers:
        await browser.open()
    await rows(grow, run)
    await hint(run)
    texts = {await browser.line.receive_from(timeout=LONG_S) for browser in browsers}
    assert (len(texts), built) == (1, [1])
    for browser in browsers:
        await browser.leave()
    await close(hubs)


async def test_a_hub_ends_after_its_last_socket_and_comes_back_for_the_next():
    hubs = Hubs(QUICK)
    run, user = await run_and_user()
    browser = Browser(hubs, run.pk, user)
    await browser.open()
    hub = hubs.of(run.pk)
    await browser.leave()
    await hub.ended.wait()
    assert len(hubs) == 0
    again = Browser(hubs, run.pk, user)
    assert (await again.open())["head"] == 1
    await again.leave()
    await close(hubs)


async def test_a_database_that_loses_its_connection_costs_a_look_and_not_the_hub(monkeypatch):
    hubs = Hubs(QUICK)
    run, user = await run_and_user()
    browser = Browser(hubs, run.pk, user, "since=1&v=1")
    await browser.open()
    lost = asyncio.Event()

    def away(run_id: int) -> int:
        loop.call_soon_threadsafe(lost.set)
        raise InterfaceError("connection already closed")

    loop = asyncio.get_running_loop()
    with monkeypatch.context() as patch:
        patch.setattr(frames, "head_of", away)
        await asyncio.wait_for(lost.wait(), 5)
    await rows(grow, run)
    assert (await browser.until(3))[-1]["to"] == 3
    await browser.leave()
    await close(hubs)


async def test_a_hub_that_ends_badly_closes_its_sockets_and_the_next_gets_another(monkeypatch, caplog):
    hubs = Hubs(QUICK)
    run, user = await run_and_user()
    browser = Browser(hubs, run.pk, user, "since=1&v=1")
    await browser.open()

    def broken(run_id: int) -> int:
        raise RuntimeError("a bug")

    with monkeypatch.context() as patch:
        patch.setattr(frames, "head_of", broken)
        assert await browser.code() == INTERNAL
    assert len(hubs) == 0 and "a bug" in caplog.text
    again = Browser(hubs, run.pk, user)
    assert (await again.open())["head"] == 1
    await again.leave()
    await close(hubs)


async def test_a_hub_that_has_been_joined_does_not_end():
    hubs = Hubs(Pace(poll_s=0.01, idle_s=0))
    run, _ = await run_and_user()
    hub, wake = hubs.of(run.pk), asyncio.Event()
    hub.join(wake)
    await hub.ready()
    await asyncio.sleep(0.1)
    assert hubs.of(run.pk) is hub and not hub.ended.is_set()
    hub.leave(wake)
    await hub.ended.wait()
    assert hubs.of(run.pk) is not hub
    await close(hubs)


async def test_a_beat_says_where_the_run_stands():
    hubs = Hubs(Pace(beat_s=0.05))
    run, user = await run_and_user()
    browser = Browser(hubs, run.pk, user, "since=1&v=1")
    await browser.open()
    assert (await browser.next("beat"))["head"] == 1
    await browser.leave()
    await close(hubs)


@pytest.mark.parametrize(
    ("query", "signed_in", "exists", "code"),
    [("v=1", False, True, 4401), ("v=1", True, False, 4404), ("v=0", True, True, 4409)],
)
async def test_a_refused_socket_is_accepted_first_so_that_the_browser_learns_why(hubs, query, signed_in, exists, code):
    run, user = await run_and_user()
    browser = Browser(hubs, run.pk if exists else 10**6, user if signed_in else AnonymousUser(), query)
    assert (await browser.line.connect(timeout=LONG_S))[0]
    assert await browser.code() == code


async def test_a_deleted_run_closes_its_sockets(hubs):
    run, user = await run_and_user()
    browser = Browser(hubs, run.pk, user, "since=1&v=1")
    await browser.open()
    await rows(run.delete)
    assert await browser.code() == 4404


@pytest.mark.parametrize("text", ["not json", "[]", '{"type":"shout"}', '{"type":"ack","to":"' + "9" * 1100 + '"}'])
async def test_what_is_not_of_the_protocol_closes_the_socket(hubs, text):
    run, user = await run_and_user()
    browser = Browser(hubs, run.pk, user, "since=1&v=1")
    await browser.open()
    await browser.line.send_to(text)
    assert await browser.code() == POLICY


async def test_a_flood_of_messages_closes_the_socket(hubs):
    run, user = await run_and_user()
    browser = Browser(hubs, run.pk, user, "since=1&v=1")
    await browser.open()
    for _ in range(40):
        await browser.send("ack", to=1)
    assert await browser.code() == POLICY


@pytest.mark.parametrize("code", [INTERNAL, SLOW, POLICY, OLD_CLIENT, SIGNED_OUT, NOT_ALLOWED, GONE])
def test_a_server_may_send_each_code_that_closes_a_socket(code):
    line = WebSocketProtocol()
    line.state, line.isServer = line.STATE_OPEN, True
    line.sendCloseFrame = lambda **frame: sent.append(frame["code"])
    sent: list[int] = []
    line.sendClose(code=code)
    assert sent == [code]


@pytest.mark.parametrize("since", ["", "-5", "abc", "1e9", "9" * 40])
async def test_a_senseless_cursor_is_no_error(hubs, since):
    run, user = await run_and_user()
    browser = Browser(hubs, run.pk, user, f"since={since}&v=1")
    assert (await browser.open())["head"] == 1
    await browser.leave()
