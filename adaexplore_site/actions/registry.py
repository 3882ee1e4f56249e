"""All actions, found in the modules `actions` and `*_actions` of each room."""

from __future__ import annotations

import pkgutil
from collections.abc import Iterator
from importlib import import_module
from typing import Any, TypeVar

from django.db.models import QuerySet
from django.utils.translation import gettext_lazy as _

from adaexplore_site.actions.action import Action, Kind, Recorded, Removed, missing
from adaexplore_site.core.models import AuditEntry

APPS = ("adaexplore_site", "judge", "memory", "search")
_verbs: dict[str, Recorded] = {}
_kinds: dict[str, Kind] = {}


R = TypeVar("R", bound=type[Recorded])


def register(found: R) -> R:
    """Class decorator. Raises ValueError for a name that is taken, a key without pages, or an action that says neither
    how it is taken back nor why it is not."""
    row = found()
    if row.name in _verbs:
        raise ValueError(f"two actions are called {row.name}")
    if isinstance(row, Action):
        _checked(row)
    _verbs[row.name] = row
    _kinds.setdefault(row.kind.name, row.kind)
    return found


def _checked(row: Action) -> None:
    own_undo = type(row).undo is not Recorded.undo
    if row.key and not row.pages:
        raise ValueError(f"{row.name}: a key needs the pages on which it works")
    if sum((own_undo or bool(row.inverse), bool(row.irreversible))) != 1:
        raise ValueError(f"{row.name}: say how it is undone, or why it is not")


def discover() -> None:
    """Import the modules of every room that hold actions, so that these are registered."""
    for app in APPS:
        for room in pkgutil.iter_modules(import_module(app).__path__, f"{app}."):
            if room.ispkg and room.name != __package__:
                for module in pkgutil.iter_modules(import_module(room.name).__path__):
                    if module.name == "actions" or module.name.endswith("_actions"):
                        import_module(f"{room.name}.{module.name}")


def actions() -> Iterator[Action]:
    """Every action, by rank and then in the order of registration."""
    return iter(sorted((row for row in _verbs.values() if isinstance(row, Action)), key=lambda row: row.rank))


def action(name: str) -> Action:
    """Raises KeyError."""
    row = _verbs[name]
    if not isinstance(row, Action):
        raise KeyError(name)
    return row


def verb(name: str) -> Recorded | None:
    """How an entry of the audit log is read; None for a verb that no code knows any more."""
    return _verbs.get(name)


def reader(entry: AuditEntry) -> Recorded:
    """What describes an entry; a plain description for a verb that no code knows any more."""
    row = _verbs.get(entry.verb)
    return Unknown(entry.verb, kind_of(entry.object_type)) if row is None else row


def kind_of(name: str) -> Kind:
    """The kind of object behind `object_type`."""
    return _kinds.get(name) or UnknownKind(name)


class UnknownKind(Kind):
    """Objects that no code knows any more."""

    def __init__(self, name: str) -> None:
        self.name = self.noun = name  # type: ignore[misc]


class Unknown(Recorded):
    """A verb of another version of this product."""

    irreversible = _("this version does not know the action")

    def __init__(self, name: str, kind: Kind) -> None:
        self.name, self.kind = name, kind  # type: ignore[misc]


def removals(kind: Kind) -> QuerySet[AuditEntry]:
    """The entries of the actions that have removed objects of this kind, the newest first."""
    verbs = [row.name for row in actions() if row.removes and row.kind is kind]
    entries = AuditEntry.objects.filter(verb__in=verbs, object_type=kind.name)
    return entries.select_related("actor").order_by("-pk")


def shown(kind: Kind, pk: int, *joined: str) -> Any:
    """The object with these relations, for its page. Raises Removed where an action has removed it, else Http404."""
    rows = kind.objects()
    found = None if rows is None else rows.select_related(*joined).filter(pk=pk).first()
    if found is not None:
        return found
    entry = removals(kind).filter(object_id=str(pk)).first()
    raise missing(kind) if entry is None else Removed(kind, entry)


def kinds() -> list[Kind]:
    """Every kind of object."""
    return list(_kinds.values())
