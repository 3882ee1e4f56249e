"""The audit as a list: narrowed by who, what, on what and when; newest first, by pages that begin below an act."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta

from django.contrib.auth.models import User
from django.db.models import Q, QuerySet
from django.utils import timezone
from django.utils.http import urlencode

from adaexplore_site.actions import registry
from adaexplore_site.actions.action import Standing, Subject
from adaexplore_site.activity.entries import Described, described
from adaexplore_site.core.access import can
from adaexplore_site.core.models import AuditEntry

PAGE = 100
MOST_FILE = 10_000  # rows of one download
COMMAND = "(command)"  # in `who`: done by a command or by the product itself; no account has such a name
NAMES = ("who", "verb", "object", "from", "to")
_OBJECT = re.compile(r"([a-z ]+?)[ :#]*(\d{1,15})?$")


@dataclass(frozen=True)
class Chosen:
    """The filter as it was asked for, and a sentence for each part that cannot be understood."""

    asked: Mapping[str, str]
    narrow: Q
    faults: tuple[str, ...]
    before: int | None = None

    @property
    def narrows(self) -> bool:
        return bool(self.asked)

    def query(self, **more: int | None) -> str:
        """As a query string, `?` included."""
        given = {**self.asked, **{name: str(value) for name, value in more.items() if value}}
        return f"?{urlencode(given)}" if given else ""


@dataclass(frozen=True)
class ActRow:
    """One act in words. `standing` says whether it can be undone, `may` whether this person may."""

    id: int
    at: datetime
    who: str
    source: str
    verb: str
    text: str
    change: str
    subject: Subject
    standing: Standing
    may: bool


def chosen_of(given: Mapping[str, str]) -> Chosen:
    """The filter of a query string."""
    asked = {name: value for name in NAMES if (value := given.get(name, "").strip()[:80])}
    faults: list[str] = []
    narrow = Q()
    if who := asked.get("who"):
        narrow &= Q(actor=None) if who == COMMAND else Q(actor__username=who)
    if verb := asked.get("verb"):
        narrow &= Q(verb=verb) | Q(verb__startswith=f"{verb}.")
    if thing := asked.get("object"):
        narrow &= _object(thing, faults)
    for name in ("from", "to"):
        if text := asked.get(name):
            narrow &= _day(name, text, faults)
    before = given.get("before", "")
    known = before.isascii() and before.isdigit() and len(before) < 16
    return Chosen(asked, narrow, tuple(faults), int(before) if known else None)


def _object(text: str, faults: list[str]) -> Q:
    found = _OBJECT.match(text.lower())
    kind = _nouns().get(found[1].strip()) if found else None
    if found is None or kind is None:
        faults.append(
            f"“{text}” does not name an object. Enter a kind and a number, such as search 12, rule 3 or device 1."
        )
        return Q(pk=None)
    return Q(object_type=kind) & (Q(object_id=str(int(found[2]))) if found[2] else Q())


def _nouns() -> dict[str, str]:
    """What people call each kind of object -> `object_type`."""
    rows = registry.kinds()
    return {noun: row.name for row in rows for noun in (row.name, row.noun or row.name, *row.aliases)}


def _day(name: str, text: str, faults: list[str]) -> Q:
    try:
        day = date.fromisoformat(text)
        begin = timezone.make_aware(datetime.combine(day, time.min))
        return Q(created_at__gte=begin) if name == "from" else Q(created_at__lt=begin + timedelta(days=1))
    except (ValueError, OverflowError):
        faults.append(f"“{text}” is not a date. Use the form 2026-01-31.")
        return Q(pk=None)


def acts_of(chosen: Chosen) -> QuerySet[AuditEntry]:
    """The acts of the filter below its cursor, newest first."""
    rows = AuditEntry.objects.filter(chosen.narrow).select_related("actor").order_by("-pk")
    return rows.filter(pk__lt=chosen.before) if chosen.before is not None else rows


def trail_page(chosen: Chosen, user: User) -> tuple[list[ActRow], int | None]:
    """The rows of one page, and the act below which the next one begins."""
    found = list(acts_of(chosen)[: PAGE + 1])
    return trail_rows(found[:PAGE], user), found[PAGE - 1].pk if len(found) > PAGE else None


def trail_rows(entries: list[AuditEntry], user: User) -> list[ActRow]:
    """These entries for one person, in a constant number of queries."""
    return [_row(one, user) for one in described(entries)]


def _row(one: Described, user: User) -> ActRow:
    entry = one.entry
    who, source = actor_of(entry)
    return ActRow(
        id=entry.pk,
        at=entry.created_at,
        who=who,
        source=source,
        verb=entry.verb,
        text=one.text,
        change=one.change,
        subject=one.subject,
        standing=one.standing,
        may=bool(one.standing.label) and one.standing.role is not None and can(user, one.standing.role),
    )


def actor_of(action: AuditEntry) -> tuple[str, str]:
    """Who did it, and by what way."""
    if action.actor is not None:
        return action.actor.get_username(), f"token {action.via}" if action.via else "page"
    by_judge = action.after.get("by") == "judge"
    itself = "the judge" if by_judge else {"device": "the judge", "budget": "the budget"}.get(action.object_type)
    return (itself, "automatic") if itself else ("a command", "shell")


def verbs() -> list[tuple[str, str]]:
    """What can be filtered by: the verb and its name in the table of acts."""
    known = {action.name: action.label for action in registry.actions() if action.own_entry and not action.verb}
    return sorted(known.items(), key=lambda item: (item[0].split(".")[0], item[1]))
