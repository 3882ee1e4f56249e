"""The same key, the same answer: what a repeated request gets, and why a key is not taken twice for two things."""

from __future__ import annotations

import hashlib
import json
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.contrib.auth.models import User
from django.db import IntegrityError
from django.http import QueryDict

from adaexplore_site.api.models import ApiAnswer

SHOWN_ONCE = ("link", "token_text", "secret")  # parts of an answer that nobody can read again
KEPT = timedelta(days=1)
CONFLICT = "This Idempotency-Key was sent with another request before. Use a new one for every act."


@dataclass(frozen=True)
class Answer:
    """Status and body of an action."""

    status: int
    body: dict[str, Any]


def audit_key(user: User, action: str, key: str) -> str:
    """The key of the audit entry: keys of others, and of other actions, are never met."""
    text = f"{user.pk}\0{action}\0{key or secrets.token_urlsafe(24)}"
    return hashlib.sha256(text.encode()).hexdigest()


def answered_once(*, user: User, key: str, asked: str, now: datetime, do: Callable[[], Answer]) -> Answer:
    """The first answer under this key, or that of `do`. 409 for another request under a known key.

    Only what was done is kept: a refused act can be sent again under its key. Where the first request has not been
    answered yet, or its process died, `do` runs again: the act itself is one by its key in the audit. Two that do it
    at once meet there, and the later one looks again.
    """
    if not key:
        return do()
    ApiAnswer.objects.filter(created_at__lt=now - KEPT).delete()
    row, mine = ApiAnswer.objects.get_or_create(user=user, key=key, defaults={"asked": asked})
    if row.asked != asked:
        return Answer(409, {"detail": CONFLICT, "now": {"answer": row.answer}})
    if row.answer is not None:
        return Answer(200, {**row.answer, "repeated": True})
    try:
        answer = do()
    except IntegrityError:
        row = ApiAnswer.objects.filter(pk=row.pk).first() or row
        if row.answer is not None:
            return Answer(200, {**row.answer, "repeated": True})
        answer = do()
    if answer.status != 200:
        if mine:
            ApiAnswer.objects.filter(pk=row.pk, answer__isnull=True).delete()
        return answer
    kept = {name: value for name, value in answer.body.items() if name not in SHOWN_ONCE}
    ApiAnswer.objects.filter(pk=row.pk).update(answer=kept)
    return answer


def fingerprint(act: str, where: Mapping[str, Any], fields: QueryDict, files: Mapping[str, Any]) -> str:
    """SHA-256 of what a request asks for."""
    contents = {}
    for name, one in files.items():
        contents[name] = [one.name, hashlib.sha256(one.read()).hexdigest()]
        one.seek(0)
    text = json.dumps([act, dict(where), sorted(fields.lists()), contents], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()
