"""The audit log as people read it: entries in words, pages of them, files, and the offer to undo the newest."""

from __future__ import annotations

import csv
import io
import json
import re
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime, time, timedelta
from typing import TYPE_CHECKING, Any

from django.conf import settings
from django.contrib import messages
from django.contrib.auth.models import User
from django.core.serializers.json import DjangoJSONEncoder
from django.db.models import Q, QuerySet
from django.http import HttpRequest, HttpResponseBase
from django.urls import reverse
from django.utils import timezone, translation
from django.utils.deprecation import MiddlewareMixin
from django.utils.http import urlencode
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from adaexplore_site.actions import registry, runner
from adaexplore_site.actions.action import Standing, Subject, plain
from adaexplore_site.core.access import can
from adaexplore_site.core.audit import written
from adaexplore_site.core.downloads import safe
from adaexplore_site.core.models import AuditEntry

if TYPE_CHECKING:
    from django_stubs_ext import StrOrPromise

MOST_CHANGES = 4
_HIDDEN = {  # row numbers, whole lists, and what the words say already
    "number", "revision", "current", "decided_at", "decided_by", "seq", "muted_count", "muted_at", "back_to", "moved",
    "other", "acts", "made", "counts", "added", "lessons", "assignee_id", "merged_into_id", "of", "undoes", "action",
    "own", "doubt", "doubt_reason", "retired", "by", "recheck", "rival", "note", "budget", "passed", "within",
}  # fmt: skip


@dataclass(frozen=True)
class ActRow:
    """One entry in words, as one person sees it. `standing` says whether it can be undone, and by whom; `may` whether
    this person may. `source` is the way by which it was done."""

    entry: AuditEntry
    who: StrOrPromise
    source: StrOrPromise
    text: StrOrPromise
    change: str
    subject: Subject
    standing: Standing
    may: bool


def trail_rows(entries: Sequence[AuditEntry], user: User | None = None) -> list[ActRow]:
    """These entries for one person, or for nobody, in a constant number of queries."""
    groups: dict[str, list[AuditEntry]] = {}
    for entry in entries:
        groups.setdefault(registry.reader(entry).kind.name, []).append(entry)
    loaded = {name: registry.kind_of(name).load(rows) for name, rows in groups.items()}
    return [_row(entry, loaded, user) for entry in entries]


def _row(entry: AuditEntry, kinds: dict[str, Any], user: User | None) -> ActRow:
    row = registry.reader(entry)
    loaded, role = kinds[row.kind.name], runner.undo_role(row)
    detail, standing = row.detail(entry, loaded), row.standing(entry, loaded)
    who, source = _actor(entry)
    return ActRow(
        entry=entry,
        who=who,
        source=source,
        text=row.describe(entry, loaded),
        change=_changed(entry) if detail is None else detail,
        subject=row.kind.subject(entry, loaded) or _gone(entry),
        standing=replace(standing, role=role),
        may=bool(standing.label) and user is not None and can(user, role),
    )


def _gone(entry: AuditEntry) -> Subject:
    values = {"kind": entry.object_type, "id": entry.object_id}
    return Subject(registry.kind_of(entry.object_type).noun, gettext("%(kind)s %(id)s (deleted)") % values)


def _actor(entry: AuditEntry) -> tuple[StrOrPromise, StrOrPromise]:
    """Who did it, and by what way."""
    if entry.actor is not None:
        source = gettext("token %(name)s") % {"name": entry.via} if entry.via else gettext("page")
        return entry.actor.get_username(), source
    if entry.object_type == "device" or entry.after.get("by") == "judge":
        return _("the judge"), _("automatic")
    return (_("the budget"), _("automatic")) if entry.object_type == "budget" else (_("a command"), _("shell"))


def _changed(entry: AuditEntry) -> str:
    """The fields that differ, such as `state running → paused`: those that fit a line."""
    pairs = [pair for pair in plain(entry, _HIDDEN) if not isinstance(pair[2], dict) and pair[2] not in ([], "")]
    parts = []
    for name, old, new in pairs[:MOST_CHANGES]:
        words = name.removesuffix("_id").replace("_", " ")
        parts.append(f"{words} {_value(old)} → {_value(new)}" if name in entry.before else f"{words} {_value(new)}")
    text, more = ", ".join(parts), len(pairs) - MOST_CHANGES
    return text if more <= 0 else gettext("%(changes)s and %(count)d more") % {"changes": text, "count": more}


def _value(value: Any) -> str:
    if value is None or value == []:
        return gettext("none")
    if isinstance(value, bool):
        return gettext("yes") if value else gettext("no")
    if isinstance(value, list):
        return ", ".join(map(str, value[:8])) + ("…" if len(value) > 8 else "")
    return str(value)[:200]


PAGE = 100
MOST_FILE = 10_000  # rows of one download
COMMAND = "(command)"  # in `who`: done by a command or by the product itself; no account has such a name
NAMES = ("who", "verb", "object", "from", "to")
_OBJECT = re.compile(r"([^\d:#]+?)[ :#]*(\d{1,15})?$")


@dataclass(frozen=True)
class Chosen:
    """The filter as it was asked for, and a sentence for each part that cannot be understood."""

    asked: Mapping[str, str]
    narrow: Q
    faults: tuple[str, ...]
    before: int | None = None
    object: tuple[str, str] | None = None  # `object_type` and number, where it is one object

    def query(self, **more: int | None) -> str:
        """As a query string, `?` included."""
        given = {**self.asked, **{name: str(value) for name, value in more.items() if value}}
        return f"?{urlencode(given)}" if given else ""


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
    return None if entry is None else trail_rows([entry], user)[0]


def _object(text: str, faults: list[str]) -> tuple[str, str]:
    """`object_type` and number; both empty where the text names no object, the number where it names all of a kind."""
    found = _OBJECT.match(text.lower())
    kind = _nouns().get(found[1].strip()) if found else None
    if found is None or kind is None:
        fault = gettext(
            "“%(text)s” does not name an object. Enter a kind and a number, such as search 12, rule 3 or device 1."
        )
        faults.append(fault % {"text": text})
        return "", ""
    return kind, str(int(found[2])) if found[2] else ""


def _nouns() -> dict[str, str]:
    """What people call each kind of object -> `object_type`."""
    return {str(noun).lower(): row.name for row in registry.kinds() for noun in (row.name, row.noun, *row.aliases)}


def _day(name: str, text: str, faults: list[str]) -> Q:
    try:
        day = date.fromisoformat(text)
        begin = timezone.make_aware(datetime.combine(day, time.min))
        return Q(created_at__gte=begin) if name == "from" else Q(created_at__lt=begin + timedelta(days=1))
    except (ValueError, OverflowError):
        faults.append(gettext("“%(text)s” is not a date. Use the form 2026-01-31.") % {"text": text})
        return Q(pk=None)


def _entries(chosen: Chosen) -> QuerySet[AuditEntry]:
    """The entries of the filter below its cursor, newest first."""
    rows = AuditEntry.objects.filter(chosen.narrow).select_related("actor").order_by("-pk")
    return rows.filter(pk__lt=chosen.before) if chosen.before is not None else rows


def trail_page(chosen: Chosen, user: User) -> tuple[list[ActRow], int | None]:
    """The rows of one page, and the act below which the next one begins."""
    found = list(_entries(chosen)[: PAGE + 1])
    return trail_rows(found[:PAGE], user), found[PAGE - 1].pk if len(found) > PAGE else None


def verbs() -> list[tuple[str, str]]:
    """What can be filtered by: the verb and its name in the table of acts."""
    known = {action.name: str(action.label) for action in registry.actions() if action.own_entry and not action.verb}
    return sorted(known.items(), key=lambda item: (item[0].split(".")[0], item[1]))


COLUMNS = ("id", "at", "who", "source", "verb", "what", "kind", "object", "name", "change")


def trail_document(chosen: Chosen) -> dict[str, Any]:
    """`acts`, newest first, in English; `more` is the act to go on below when there are more than one file takes."""
    found = list(_entries(chosen)[: MOST_FILE + 1])
    entries = found[:MOST_FILE]
    more = entries[-1].pk if len(found) > MOST_FILE else None
    with translation.override(settings.LANGUAGE_CODE):
        return {"filter": dict(chosen.asked), "acts": [_act(row) for row in trail_rows(entries)], "more": more}


def _act(row: ActRow) -> dict[str, Any]:
    entry, subject = row.entry, row.subject
    return {
        "id": entry.pk,
        "at": entry.created_at.isoformat(),
        "who": str(row.who),
        "source": str(row.source),
        "verb": entry.verb,
        "what": str(row.text),
        "kind": str(subject.kind),
        "object": entry.object_id,
        "name": str(subject.label),
        "change": row.change,
        "before": entry.before,
        "after": entry.after,
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
    writer.writerows([safe(act[name]) for name in COLUMNS] for act in document["acts"])
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
            offer = {"text": row.text, "label": row.standing.label, "url": reverse("action-undo", args=[row.entry.pk])}
            acted = {"acted": offer | {"key": secrets.token_urlsafe(16)}}
            response["HX-Trigger-After-Swap"] = json.dumps(acted, cls=DjangoJSONEncoder)
        elif response.status_code in (301, 302, 303) and not _offers_itself(response):
            _mark(request, row)
        return response


def _offers_itself(response: HttpResponseBase) -> bool:
    """The review queue has its newest act with Undo on it, whoever comes by."""
    return response.headers.get("Location", "").partition("?")[0] == reverse("rule-list")


def _mark(request: HttpRequest, row: ActRow) -> None:
    """On the message that the view left, else on one of our own."""
    tag = f"{TAG}:{row.entry.pk}:{row.standing.label}"
    queued = getattr(messages.get_messages(request), "_queued_messages", [])
    mine = next((one for one in reversed(queued) if one.level <= messages.SUCCESS and not one.extra_tags), None)
    if mine is not None:
        mine.extra_tags = tag
    else:
        messages.success(request, row.text, extra_tags=tag)
