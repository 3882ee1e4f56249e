"""Leases: who works on a node, and until when. A lost race is a False, never an error."""

from __future__ import annotations

import logging
import os
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from uuid import uuid4

from django.db import Error as DatabaseFault
from django.db import connection
from django.db.models import Q
from django.utils import timezone

from search.records.models import Node

log = logging.getLogger(__name__)

LEASE_S = 30.0  # a dead worker's node is free again after this
RENEW_S = 8.0
QUEUE_S = 30.0  # a node nobody has picked up by then is sent once more
RESENT_S = 60.0
MAX_ATTEMPTS = 5

# Owners that are not a worker. The first two may be claimed at any time, the person's never expires.
QUEUED, RETRY, PERSON = "queue", "retry", Node.PERSON


def here() -> str:
    """Where a process id of this process means something: host, boot and process namespace.

    Containers may share a host name. Without /proc the name has to do.
    """
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text()[:8]
        namespace = Path("/proc/self/ns/pid").stat().st_ino
    except OSError:
        return socket.gethostname()[:32]
    return f"{socket.gethostname()[:32]}@{boot}-{namespace}"


def owner_name() -> str:
    """A name no other claim has, so that a late worker cannot be taken for its successor."""
    return f"{here()}:{os.getpid()}:{uuid4().hex[:12]}"


def leases_release(*, now: datetime, queue_lost: bool) -> int:
    """End the leases of dead processes that ran here; with `queue_lost` those of queued nodes too.

    For whoever knows that processes died (the supervisor at its start, or when it replaces a worker): the next reap
    then goes on at once instead of waiting for the expiry. Returns how many leases ended.
    """
    held = Node.objects.filter(state__in=Node.IN_FLIGHT).held(now)
    owners = held.filter(lease_owner__startswith=here() + ":").values_list("lease_owner", flat=True)
    dead = [owner for owner in owners if not _lives(owner)]
    return held.filter(lease_owner__in=(*dead, QUEUED, RETRY) if queue_lost else dead).release(now=now)


def _lives(owner: str) -> bool:
    try:
        os.kill(int(owner.split(":")[1]), 0)
    except ProcessLookupError:
        return False
    except (PermissionError, ValueError, IndexError):
        pass  # somebody else's process, or no process at all: the lease runs out by itself
    return True


def node_claim(*, node_id: int, state: Node.State, owner: str, now: datetime) -> bool:
    """Take the lease of a node that waits in `state`. False when somebody else has it, or it has been tried enough."""
    free = Q(lease_owner__in=(QUEUED, RETRY)) | Q(lease_until__lte=now)
    nodes = Node.objects.filter(free, pk=node_id, state=state, attempts__lt=MAX_ATTEMPTS)
    return nodes.acquire(now=now, for_s=LEASE_S, lease_owner=owner)


def lease_renew(*, node_id: int, owner: str, now: datetime) -> bool:
    """Push the expiry of a lease that is still held."""
    return Node.objects.filter(pk=node_id, lease_owner=owner, state__in=Node.IN_FLIGHT).renew(now=now, for_s=LEASE_S)


@contextmanager
def lease_kept(*, node_id: int, owner: str, every_s: float = RENEW_S) -> Iterator[None]:
    """Renew the lease from a daemon thread while the body works; a killed process stops renewing by itself."""
    done = threading.Event()

    def renew() -> None:
        try:
            while not done.wait(every_s):
                try:
                    if not lease_renew(node_id=node_id, owner=owner, now=timezone.now()):
                        return
                except DatabaseFault as error:  # locked or away for a moment: the work goes on, try again
                    log.warning("the lease of node %s was not renewed: %s", node_id, error)
                    connection.close()
        finally:
            connection.close()

    thread = threading.Thread(target=renew, name=f"lease-{node_id}", daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()
