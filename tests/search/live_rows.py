"""A run that grows by hand, with the events that the services write, and a socket that a test can talk to."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeVar

from asgiref.sync import sync_to_async
from channels.routing import URLRouter
from channels.testing import WebsocketCommunicator
from django.contrib.auth.models import User
from django.db import connections, transaction
from django.urls import path
from django.utils import timezone

from judge.evaluations.models import Evaluation
from search.engine.completion import best_event, completed_event
from search.live.hub import Hubs, Pace
from search.live.socket import RunSocket
from search.records.events import NodeReserved
from search.records.facts import fingerprint_of
from search.records.log import event_write
from search.records.models import Node, Run
from tests.search.makers import make_run

T = TypeVar("T")
QUICK = Pace(frame_s=0.01, poll_s=0.05, idle_s=0.05, beat_s=30)
HINTS_ONLY = Pace(frame_s=0.01, poll_s=60, beat_s=30)


def grow(run: Run, *, speedup: float | None = 2.0, parent: int = 0, kind: str = "large") -> Node:
    """One more node, reserved and told. `speedup` None: a wrong one."""
    node = reserve(run, parent=parent, kind=kind)
    tell(node, speedup)
    return node


def reserve(run: Run, *, parent: int = 0, kind: str = "large") -> Node:
    with transaction.atomic():
        number = run.nodes.count()
        node = Node.objects.create(run=run, number=number, parent=run.nodes.get(number=parent), kind=kind)
        event_write(run=run, event=NodeReserved(number=number, parent=parent, kind=kind, context=[]))
    return node


def tell(node: Node, speedup: float | None) -> None:
    run, verdict = node.run, "pass" if speedup else "wrong"
    numbers = {"speedup": speedup, "low": speedup * 0.9, "high": speedup * 1.1} if speedup else {}
    with transaction.atomic():
        evaluation = Evaluation.objects.create(
            problem=run.problem,
            device=run.device,
            candidate_hash=str(node.number),
            protocol="judge/1",
            verdict=verdict,
            reason="" if speedup else "wrong.values",
            speedup=speedup,
            speedup_low=numbers.get("low"),
            speedup_high=numbers.get("high"),
            speedup_n=7,
            basis="modelled" if speedup else "",
            audit="passed" if speedup else "",
        )
        node.state, node.evaluation, node.told_at = Node.State.COMPLETED, evaluation, timezone.now()
        node.fingerprint = fingerprint_of(evaluation, "", "")
        node.told_order = run.nodes.filter(state="told").count()
        node.save()
        event_write(run=run, event=completed_event(node, evaluation))


def new_best(node: Node) -> None:
    evaluation = node.evaluation
    assert evaluation is not None
    with transaction.atomic():
        event_write(run=node.run, event=replace(best_event(node, evaluation), won=True))


async def rows(make: Callable[..., T], *args: Any, **kwargs: Any) -> T:
    """Run database code in a thread of its own and leave no connection behind."""

    def work() -> T:
        try:
            return make(*args, **kwargs)
        finally:
            connections.close_all()

    return await sync_to_async(work, thread_sensitive=False)()


def make_user(name: str = "viewer") -> User:
    return User.objects.create_user(name, password="a-long-enough-one")


async def run_and_user() -> tuple[Run, User]:
    return await rows(make_run), await rows(make_user)


LONG_S = 60.0  # ends a wait for nothing


class Browser:
    """A browser's end of one socket."""

    def __init__(self, hubs: Hubs, run_id: int, user: Any, query: str = "since=0&v=1") -> None:
        app = URLRouter([path("ws/run/<int:run_id>", RunSocket(hubs))])
        self.line = WebsocketCommunicator(app, f"/ws/run/{run_id}?{query}")
        self.line.scope["user"] = user

    async def open(self) -> dict[str, Any]:
        """Connect; returns the hello."""
        assert (await self.line.connect(timeout=LONG_S))[0]
        return await self.next("hello")

    async def next(self, *kinds: str, seconds: float = LONG_S) -> dict[str, Any]:
        """The next message, which must be of one of these types."""
        message = json.loads(await self.line.receive_from(timeout=seconds))
        assert message["type"] in kinds, message
        return message

    async def until(self, seq: int) -> list[dict[str, Any]]:
        """Acknowledged frames up to event `seq`, which must follow each other without a gap."""
        frames: list[dict[str, Any]] = []
        while not frames or frames[-1]["to"] < seq:
            frame = await self.next("frame")
            assert not frames or frame["from"] == frames[-1]["to"]
            await self.ack(frame)
            frames.append(frame)
        return frames

    async def send(self, kind: str, **fields: Any) -> None:
        await self.line.send_to(json.dumps({"type": kind, **fields}))

    async def ack(self, frame: dict[str, Any]) -> None:
        await self.send("ack", to=frame["to"])

    async def code(self) -> int:
        """The close code, which must come next."""
        output = await self.line.receive_output(timeout=LONG_S)
        assert output["type"] == "websocket.close", output
        return int(output["code"])

    async def silent(self) -> bool:
        return await self.line.receive_nothing(timeout=0.15, interval=0.02)

    async def leave(self) -> None:
        await self.line.disconnect(timeout=LONG_S)


async def close(hubs: Hubs) -> None:
    """End hubs and their threads; the threads wait for each other, so this runs beside the loop."""
    await asyncio.wait_for(hubs.close(), LONG_S)
