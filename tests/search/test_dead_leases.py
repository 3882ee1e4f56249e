"""The supervisor frees what dead processes held, so that a restart goes on at once."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from datetime import UTC, datetime, timedelta

import pytest

from search.models import Node
from search.services.leases import QUEUED, leases_release, owner_name
from tests.search.makers import make_run

pytestmark = pytest.mark.django_db
NOW = datetime(2026, 11, 22, 12, 0, tzinfo=UTC)


def node_held_by(owner: str) -> Node:
    run = make_run()
    root = run.nodes.get(number=0)
    return Node.objects.create(
        run=run, number=1, parent=root, kind="large", lease_owner=owner, lease_until=NOW + timedelta(seconds=20)
    )


def dead_process() -> int:
    child = subprocess.Popen([sys.executable, "-c", ""])
    child.wait()
    return child.pid


def is_free(node: Node) -> bool:
    node.refresh_from_db()
    assert node.lease_until is not None
    return node.lease_until < NOW


def test_the_lease_of_a_dead_process_ends() -> None:
    node = node_held_by(f"{socket.gethostname()[:40]}:{dead_process()}:abc")
    assert leases_release(now=NOW, queue_lost=False) == 1
    assert is_free(node)


def test_the_lease_of_a_living_process_stays() -> None:
    node = node_held_by(owner_name())
    assert str(os.getpid()) in node.lease_owner
    assert leases_release(now=NOW, queue_lost=True) == 0
    assert not is_free(node)


def test_another_host_is_left_alone() -> None:
    node = node_held_by(f"elsewhere:{dead_process()}:abc")
    assert leases_release(now=NOW, queue_lost=False) == 0
    assert not is_free(node)


@pytest.mark.parametrize("queue_lost", [True, False])
def test_queued_nodes_are_freed_only_when_the_queue_is_lost(queue_lost: bool) -> None:
    node = node_held_by(QUEUED)
    assert leases_release(now=NOW, queue_lost=queue_lost) == int(queue_lost)
    assert is_free(node) is queue_lost
