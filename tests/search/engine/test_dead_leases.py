"""The supervisor frees what dead processes held, so that a restart goes on at once."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from judge.values import owners
from judge.values.owners import here, owner_name
from search.engine.leases import QUEUED, leases_release
from search.records.models import Node
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
    node = node_held_by(f"{here()}:{dead_process()}:abc")
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


def test_another_container_of_the_same_host_name_is_left_alone() -> None:
    node = node_held_by(f"{socket.gethostname()[:32]}@00000000-1:{dead_process()}:abc")
    assert leases_release(now=NOW, queue_lost=False) == 0
    assert not is_free(node)


def test_a_name_fits_its_field_and_is_made_without_proc(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "gethostname", lambda: "h" * 60)
    longest = Node._meta.get_field("lease_owner").max_length
    assert longest is not None and len(here()) + len(f":{1 << 22}:") + 12 <= longest
    monkeypatch.setattr(owners, "Path", lambda name: Path("/nowhere") / name.lstrip("/"))
    assert here() == "h" * 32
    node = node_held_by(f"{here()}:{dead_process()}:abc")
    assert leases_release(now=NOW, queue_lost=False) == 1
    assert is_free(node)


@pytest.mark.parametrize("queue_lost", [True, False])
def test_queued_nodes_are_freed_only_when_the_queue_is_lost(queue_lost: bool) -> None:
    node = node_held_by(QUEUED)
    assert leases_release(now=NOW, queue_lost=queue_lost) == int(queue_lost)
    assert is_free(node) is queue_lost
