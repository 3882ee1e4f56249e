"""Saved views: the lists that have them, and what is kept of a list's address."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl

from django.conf import settings
from django.contrib.auth.models import User
from django.db import IntegrityError, transaction
from django.urls import reverse
from django.utils import timezone, translation
from django.utils.http import urlencode
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from adaexplore_site.core.access import Role, can
from adaexplore_site.core.audit import ActionRefused, action_on
from adaexplore_site.core.models import AuditEntry
from adaexplore_site.core.text import storable_text
from adaexplore_site.saved_views.models import SavedView

if TYPE_CHECKING:
    from django_stubs_ext import StrOrPromise

PLACES: Mapping[str, tuple[StrOrPromise, tuple[str, ...]]] = {  # route -> its name to people, its parameters in order
    "run-list": (_("Searches"), ("state", "q", "device", "sort")),
    "kernel-list": (_("Kernels"), ("basis", "problem", "device", "dtype", "unassisted", "marked")),
    "failure-list": (_("Failures"), ("run", "stage", "problem", "sort", "muted")),
    "rule-list": (_("Rules"), ("tab", "q", "origin", "scope", "least", "flagged", "adapt", "sort", "rule")),
    "activity": (_("Activity"), ("who", "verb", "object", "from", "to")),
}
LONGEST, MOST_CHARS = 600, 120  # of a query, of a parameter


def query_of(place: str, text: str) -> str:
    """What of a query string belongs to a view of the page, in one order: equal views have equal texts."""
    given = dict(parse_qsl(text.removeprefix("?")[:4000]))
    kept = {name: given[name][:MOST_CHARS] for name in PLACES[place][1] if given.get(name)}
    query = urlencode(kept)
    while len(query) > LONGEST:  # percent signs make a text up to nine times as long
        kept.popitem()
        query = urlencode(kept)
    return query


def address_of(place: str, query: str) -> str:
    """A path of this site, whatever was stored."""
    return reverse(place) + (f"?{query}" if query else "")


SAVE, RENAME, DELETE, RESTORE = "view.save", "view.rename", "view.delete", "view.restore"
OBJECT = "view"
MOST = 30  # of one person on one page
KEPT = timedelta(days=30)  # a deleted one can be put back
NAME_CHARS = 60


def view_save(*, place: str, name: str, query: str, shared: bool, user: User, key: str | None = None) -> SavedView:
    """Save what a page shows. Raises ActionRefused with what to change."""
    if place not in PLACES:
        raise ActionRefused(gettext("This page has no views to save."))
    _check_sharing(shared, user)
    with _names_once(), transaction.atomic():
        if SavedView.objects.filter(owner=user, place=place, deleted_at=None).count() >= MOST:
            message = gettext("You have %(count)d views of this page. Delete one first.")
            raise ActionRefused(message % {"count": MOST})
        row = SavedView.objects.create(
            owner=user, place=place, name=_name(name), query=query_of(place, query), shared=shared
        )
        _record(SAVE, row, user, key)
    return row


def view_rename(*, view: SavedView, name: str, shared: bool, user: User, key: str | None = None) -> SavedView:
    """Another name, for its owner alone or for everybody."""
    _check_sharing(shared, user)
    with _names_once(), transaction.atomic():
        row = _mine(view, user)
        if (row.name, row.shared) == (_name(name), shared):
            return row
        row.name, row.shared = _name(name), shared
        row.save(update_fields=["name", "shared"])
        _record(RENAME, row, user, key)
    return row


def view_delete(*, view: SavedView, deleted: bool, user: User, key: str | None = None) -> SavedView:
    """Delete a view, or put a deleted one back."""
    verb = DELETE if deleted else RESTORE
    with _names_once(), transaction.atomic():
        row = _mine(view, user)
        if (row.deleted_at is not None) == deleted:
            return row
        SavedView.objects.filter(owner=user, deleted_at__lt=timezone.now() - KEPT).exclude(pk=row.pk).delete()
        row.deleted_at = timezone.now() if deleted else None
        row.save(update_fields=["deleted_at"])
        _record(verb, row, user, key)
    return row


def _name(text: str) -> str:
    name = " ".join(storable_text(text).split())
    if not name or len(name) > NAME_CHARS:
        message = gettext("Give the view a name of 1 to %(most)d characters.")
        raise ActionRefused(message % {"most": NAME_CHARS})
    return name


def _check_sharing(shared: bool, user: User) -> None:
    if shared and not can(user, Role.OPERATOR):
        raise ActionRefused(gettext("Sharing a view needs the role 'operator'. Save it for yourself, or ask an admin."))


def _mine(view: SavedView, user: User) -> SavedView:
    row = SavedView.objects.select_for_update(of=("self",)).get(pk=view.pk)
    if row.owner_id != user.pk:
        raise ActionRefused(gettext("This view belongs to another member. Save one of your own."))
    return row


@contextmanager
def _names_once() -> Iterator[None]:
    """The database keeps names apart; of two that are equal the second one is refused in words."""
    try:
        yield
    except IntegrityError as error:
        raise ActionRefused(gettext("You have a view of this name here already. Choose another name.")) from error


def _in_english(text: StrOrPromise) -> str:
    """What is stored is not in the language of who did it."""
    with translation.override(settings.LANGUAGE_CODE):
        return str(text)


def _record(verb: str, row: SavedView, user: User, key: str | None) -> AuditEntry:
    """The audit is read by everybody: a private view's name is not in it."""
    page = _in_english(PLACES[row.place][0])
    after = {"page": page, "shared": row.shared, **({"name": row.name} if row.shared else {})}
    return action_on(verb=verb, on=(OBJECT, row.pk), user=user, key=key, after=after)
