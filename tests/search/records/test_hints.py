"""Hints: sent after commit, merged while they wait, never in the way."""

from __future__ import annotations

import asyncio
import logging

import pytest

from search.records import queue
from search.records.queue import Publisher


def collecting(seen: list):
    async def send(group, message):
        seen.append((group, message))

    return send


def test_a_hint_goes_to_the_group_of_its_run():
    seen: list = []
    publisher = Publisher(collecting(seen))
    publisher.publish(7, 3)
    publisher.close()
    assert seen == [("run.7", {"type": "run.hint", "run": 7, "seq": 3})]


def test_hints_that_wait_merge_into_the_newest():
    seen: list = []
    gate = asyncio.Event()

    async def send(group, message):
        await gate.wait()
        seen.append(message["seq"])

    publisher = Publisher(send, limit_s=5)
    for seq in (1, 2, 3, 4):
        publisher.publish(7, seq)
    publisher._loop.call_soon_threadsafe(gate.set)
    publisher.close()
    assert seen[-1] == 4
    assert seen == sorted(set(seen))
    assert len(seen) <= 3


def test_a_dead_layer_is_logged_once_and_ignored(caplog):
    async def refuse(group, message):
        raise ConnectionRefusedError("no server")

    publisher = Publisher(refuse)
    with caplog.at_level(logging.WARNING, logger="search.records.queue"):
        for seq in range(3):
            publisher.publish(seq, seq)
        publisher.close()
    assert len(caplog.records) == 1


def test_a_layer_that_hangs_is_cut_off(caplog):
    async def hang(group, message):
        await asyncio.Event().wait()

    publisher = Publisher(hang, limit_s=0.01)
    publisher.publish(1, 1)
    publisher.close()
    assert "not sent" in caplog.text


@pytest.mark.django_db
def test_an_event_hints_only_after_commit(django_capture_on_commit_callbacks, monkeypatch):
    from tests.search.makers import make_run

    seen: list = []
    monkeypatch.setattr(queue, "publish", lambda run_id, seq: seen.append((run_id, seq)))
    with django_capture_on_commit_callbacks() as callbacks:
        run = make_run()
    assert seen == []
    for callback in callbacks:
        callback()
    assert seen == [(run.pk, 1)]
