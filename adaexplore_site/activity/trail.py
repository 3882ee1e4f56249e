"""The audit log as people read it: entries in words, pages of them, files, and the offer to undo the newest."""

from __future__ import annotations

import csv
import io
import json
import re
import secrets
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime, time, timedelta
from typing import Any

from django.contrib import messages
from django.contrib.auth.models import User
from django.db.models import Q, QuerySet
from django.http import HttpRequest, HttpResponseBase
from django.urls import reverse
from django.utils import timezone
from django.utils.deprecation import MiddlewareMixin
from django.utils.http import urlencode

from adaexplore_site.actions import registry, runner
from adaexplore_site.actions.action import Standing, Subject, plain
from adaexplore_site.core.access import can
from adaexplore_site.core.audit import written
from adaexplore_site.core.downloads import safe
from adaexplore_site.core.models import AuditEntry

MOST_CHANGES = 4
_HIDDEN = {  # row numbers, whole lists, and what the words say already
    "number", "revision", "current", "decided_at", "decided_by", "seq", "muted_count", "muted_at", "back_to", "moved",
    "other", "acts", "made", "counts", "added", "lessons", "assignee_id", "merged_into_id", "of", "undoes", "action",
    "own", "doubt", "doubt_reason", "retired", "by", "recheck", "rival", "note", "budget", "passed", "within",
}  # fmt: skip


@dataclass(frozen=True)
class Described:
    """One entry in words. `standing` says whether it can be undone, and by whom."""

    entry: AuditEntry
    text: str
    change: str
    subject: Subject
    standing: Standing


def described(entries: Sequence[AuditEntry]) -> list[Described]:
    """These entries in words, in a constant number of queries."""
    loaded = _loaded(entries)
    return [_one(entry, loaded) for entry in entries]


def _loaded(entries: Iterable[AuditEntry]) -> dict[str, Any]:
    """What each kind of object needs to describe its entries."""
    groups: dict[str, list[AuditEntry]] = {}
    for entry in entries:
        groups.setdefault(registry.reader(entry).kind.name, []).append(entry)
    return {name: registry.kind_of(name).load(rows) for name, rows in groups.items()}


def _one(entry: AuditEntry, kinds: dict[str, Any]) -> Described:
    row = registry.reader(entry)
    loaded = kinds[row.kind.name]
    detail = row.detail(entry, loaded)
    return Described(
        entry=entry,
        text=row.describe(entry, loaded),
        change=changed(entry) if detail is None else detail,
        subject=row.kind.subject(entry, loaded) or _gone(entry),
        standing=replace(row.standing(entry, loaded), role=runner.undo_role(row)),
    )


def _gone(entry: AuditEntry) -> Subject:
    """An object that does not exist any more."""
    return Subject(entry.object_type, f"{entry.object_type} {entry.object_id} (deleted)")


def changed(action: AuditEntry) -> str:
    """The fields that differ, such as `state running → paused`."""
    pairs = plain(action, _HIDDEN)
    told = [_pair(name, old, new, name in action.before) for name, old, new in pairs if _plain(new)]
    return ", ".join(told[:MOST_CHANGES]) + (
        f" and {len(told) - MOST_CHANGES} more" if len(told) > MOST_CHANGES else ""
    )


def _pair(name: str, old: Any, new: Any, known: bool) -> str:
    words = name.removesuffix("_id").replace("_", " ")
    return f"{words} {_value(old)} → {_value(new)}" if known else f"{words} {_value(new)}"


def _plain(value: Any) -> bool:
    """Whether it fits a line: no whole rows, no empty lists."""
    return not isinstance(value, dict) and value != [] and value != ""


def _value(value: Any) -> str:
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return ", ".join(map(str, value[:8])) + ("…" if len(value) > 8 else "") if value else "none"
    return str(value)[:200]


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
    object: tuple[str, str] | None = None  # `object_type` and number, where it is one object

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
    narrow, one = Q(), None
    if who := asked.get("who"):
        narrow &= Q(actor=None) if who == COMMAND else Q(actor__username=who)
    if verb := asked.get("verb"):
        narrow &= Q(verb=verb) | Q(verb__startswith=f"{verb}.")
    if thing := asked.get("object"):
        kind, number = _object(thing, faults)
        narrow &= Q(object_type=kind) & (Q(object_id=number) if number else Q())
        one = (kind, number) if number else None
    for name in ("from", "to"):
        if text := asked.get(name):
            narrow &= _day(name, text, faults)
    before = given.get("before", "")
    known = before.isascii() and before.isdigit() and len(before) < 16
    return Chosen(asked, narrow, tuple(faults), int(before) if known else None, one)


def removal_of(chosen: Chosen, user: User) -> ActRow | None:
    """The action that removed the one object of the filter; None where it is there, or is not one object."""
    if chosen.object is None:
        return None
    kind, number = chosen.object
    entry = registry.removals(registry.kind_of(kind)).filter(object_id=number).first()
    return None if entry is None else _row(described([entry])[0], user)


def _object(text: str, faults: list[str]) -> tuple[str, str]:
    """`object_type` and number; both empty where the text names no object, the number where it names all of a kind."""
    found = _OBJECT.match(text.lower())
    kind = _nouns().get(found[1].strip()) if found else None
    if found is None or kind is None:
        faults.append(
            f"“{text}” does not name an object. Enter a kind and a number, such as search 12, rule 3 or device 1."
        )
        return "", ""
    return kind, str(int(found[2])) if found[2] else ""


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
    known = {action.name: str(action.label) for action in registry.actions() if action.own_entry and not action.verb}
    return sorted(known.items(), key=lambda item: (item[0].split(".")[0], item[1]))


COLUMNS = ("id", "at", "who", "source", "verb", "what", "kind", "object", "name", "change")


def trail_document(chosen: Chosen) -> dict[str, Any]:
    """`acts`, newest first; `more` is the act to go on below when there are more than one file takes."""
    found = list(acts_of(chosen)[: MOST_FILE + 1])
    actions = found[:MOST_FILE]
    more = actions[-1].pk if len(found) > MOST_FILE else None
    return {"filter": dict(chosen.asked), "acts": [_act(one) for one in described(actions)], "more": more}


def _act(one: Described) -> dict[str, Any]:
    action, subject = one.entry, one.subject
    who, source = actor_of(action)
    return {
        "id": action.pk,
        "at": action.created_at.isoformat(),
        "who": who,
        "source": source,
        "verb": action.verb,
        "what": one.text,
        "kind": subject.kind,
        "object": action.object_id,
        "name": subject.label,
        "change": one.change,
        "before": action.before,
        "after": action.after,
    }


def trail_json(chosen: Chosen) -> bytes:
    """UTF-8, indented."""
    return json.dumps(trail_document(chosen), indent=1, ensure_ascii=False).encode()


def trail_csv(chosen: Chosen) -> bytes:
    """With a header; the full rows before and after are in the JSON alone."""
    out = io.StringIO()
    writer = csv.writer(out)
    writer.writerow(COLUMNS)
    document = trail_document(chosen)
    for act in document["acts"]:
        writer.writerow([safe(act[name]) for name in COLUMNS])
    if document["more"]:
        writer.writerow([f"older actions: repeat the request with before={document['more']}"])
    return out.getvalue().encode()


TAG = "undo"  # of a message: undo:<act>:<label of the button>


class UndoOffer(MiddlewareMixin):
    """Marks the message of a form with the act to undo; scripts that swap get an event `acted` instead.

    The event follows the swap: before it, htmx sends the event to the form that posted, which a live update may have
    taken off the page meanwhile.
    """

    def process_request(self, request: HttpRequest) -> None:
        """Note the audit rows of this request."""
        written.set([] if request.method == "POST" else None)

    def process_response(self, request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase:
        """Offer to undo the last of them, if the person may."""
        rows, user = written.get(), getattr(request, "user", None)
        written.set(None)
        if not rows or response.status_code >= 400 or user is None or not user.is_authenticated:
            return response
        action = AuditEntry.objects.select_related("actor").filter(pk=rows[-1]).first()
        row = trail_rows([action], user)[0] if action is not None else None
        if row is None or not row.may:
            return response
        if request.headers.get("HX-Request") == "true":
            response["HX-Trigger-After-Swap"] = json.dumps({"acted": offer_of(row)})
        elif response.status_code in (301, 302, 303) and not _offers_itself(response):
            _mark(request, row)
        return response


def offer_of(row: ActRow) -> dict[str, str]:
    """What a script needs for the button."""
    url = reverse("action-undo", args=[row.id])
    return {"text": row.text, "label": str(row.standing.label), "url": url, "key": secrets.token_urlsafe(16)}


def _offers_itself(response: HttpResponseBase) -> bool:
    """The review queue has its newest act with Undo on it, whoever comes by."""
    return response.headers.get("Location", "").partition("?")[0] == reverse("rule-list")


def _mark(request: HttpRequest, row: ActRow) -> None:
    """On the message that the view left, else on one of our own."""
    tag = f"{TAG}:{row.id}:{row.standing.label}"
    queued = getattr(messages.get_messages(request), "_queued_messages", [])
    mine = next((one for one in reversed(queued) if one.level <= messages.SUCCESS and not one.extra_tags), None)
    if mine is not None:
        mine.extra_tags = tag
    else:
        messages.success(request, row.text, extra_tags=tag)
