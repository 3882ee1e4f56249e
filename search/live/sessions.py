"""Who may hold a socket: the check at the door, and one query a minute for all sockets of a process."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from django.contrib.auth import HASH_SESSION_KEY, SESSION_KEY, get_user_model
from django.contrib.sessions.models import Session
from django.db import Error as DatabaseFault
from django.utils import timezone
from django.utils.crypto import constant_time_compare

from adaexplore_site.core.access import Role, can
from search.live.reads import Reads
from search.records.models import Run

log = logging.getLogger(__name__)

SIGNED_OUT, NOT_ALLOWED, GONE = 4401, 4403, 4404


def access(user: Any, run_id: int) -> int | None:
    """The close code for a user who may not watch this run, or None when watching is fine."""
    if user is None or not user.is_authenticated:
        return SIGNED_OUT
    if not can(user, Role.VIEWER):
        return NOT_ALLOWED
    if not Run.objects.filter(pk=run_id).exists():
        return GONE
    return None


def signed_out(session_keys: set[str]) -> set[str]:
    """Those keys whose session has ended, whose user is gone or inactive, or whose password has changed."""
    rows = Session.objects.filter(session_key__in=session_keys, expire_date__gt=timezone.now())
    sessions = {row.session_key: row.get_decoded() for row in rows}
    model = get_user_model()
    ids = {data[SESSION_KEY] for data in sessions.values() if SESSION_KEY in data}
    users = {str(user.pk): user for user in model._default_manager.filter(pk__in=ids, is_active=True)}

    def valid(key: str) -> bool:
        data = sessions.get(key, {})
        user = users.get(str(data.get(SESSION_KEY)))
        return user is not None and constant_time_compare(
            data.get(HASH_SESSION_KEY, ""),
            user.get_session_auth_hash(),
        )

    return {key for key in session_keys if not valid(key)}


@dataclass(eq=False)
class _Watched:
    session_key: str
    close: Callable[[], None]


class Sessions:
    """Looks at the sessions of all open sockets every `every_s` seconds and closes those that have ended."""

    def __init__(self, reads: Reads, *, every_s: float) -> None:
        self._reads, self._every_s = reads, every_s
        self._watched: set[_Watched] = set()
        self._task: asyncio.Task[None] | None = None

    @contextmanager
    def watch(self, scope: dict[str, Any], close: Callable[[], None]) -> Iterator[None]:
        """Keep an eye on the session of `scope` while the block runs; `close()` once it has ended."""
        session = scope.get("session")
        entry = _Watched(getattr(session, "session_key", None) or "", close)
        self._watched.add(entry)
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._check_while_watched())
        try:
            yield
        finally:
            self._watched.discard(entry)

    async def _check_while_watched(self) -> None:
        while True:
            await asyncio.sleep(self._every_s)
            if not self._watched:
                return
            try:
                ended = await self._reads(signed_out, {entry.session_key for entry in self._watched})
            except DatabaseFault as error:
                log.warning("cannot check sessions now: %s", error)
                continue
            for entry in self._watched:
                if entry.session_key in ended:
                    entry.close()
