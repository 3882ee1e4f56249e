"""The registry as one page needs it: links of the bar, shortcut help, what palette and keys may do here."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from django.http import HttpRequest
from django.urls import NoReverseMatch, reverse
from django.utils.functional import SimpleLazyObject

from adaexplore_site.actions import registry
from adaexplore_site.actions.action import Action
from adaexplore_site.core.access import Role, roles_of
from adaexplore_site.palette.places import PLACES, VIEW_KEYS


@dataclass(frozen=True)
class Link:
    """A place with its address, as the person may open it."""

    id: str
    label: str
    url: str
    key: str
    title: str
    detail: str
    current: bool


@dataclass(frozen=True)
class Keys:
    """One part of the shortcut help: rows of (keys pressed one after the other, what they do)."""

    title: str
    rows: list[tuple[list[str], str]]


@dataclass(frozen=True)
class Commands:
    """Everything for one page. `script` goes to the page as JSON: `go` (key -> address), `places`, `acts`, `find`."""

    places: list[Link]
    bar: list[Link]
    keys: list[Keys]
    script: dict[str, Any] = field(default_factory=dict)


def context(request: HttpRequest) -> dict[str, object]:
    """Template context: `commands`, made only where a template asks for it."""
    return {"commands": SimpleLazyObject(lambda: commands_of(request))}


def commands_of(request: HttpRequest) -> Commands:
    """What this person can reach from this page."""
    match = getattr(request, "resolver_match", None)
    route = (match.url_name or "") if match else ""
    held = roles_of(request.user) if hasattr(request, "user") else frozenset()
    places = _places(route, held)
    acts = [act for act in registry.actions() if route in act.pages and _may(act, held)]
    bar = {place.id for place in PLACES if place.bar}
    return Commands(
        places=places,
        bar=[link for link in places if link.id in bar],
        keys=_keys(route, places, acts),
        script={
            "go": {link.key: link.url for link in places if link.key},
            "places": [[link.label, link.detail, link.url, link.key] for link in places],
            "acts": _acts(acts, match.kwargs if match else {}),
            "denied": _denied(route, held) if Role.VIEWER in held else {},
            "find": address("find-names"),
        },
    )


def _may(action: Action, held: frozenset[Role]) -> bool:
    return not held.isdisjoint((action.role, *action.also))


def address(route: str, **parts: Any) -> str:
    """Where a route leads; empty when the route is not there."""
    try:
        return reverse(route, kwargs=parts)
    except NoReverseMatch:
        return ""


def _places(route: str, held: frozenset[Role]) -> list[Link]:
    owner = _owner(route)
    return [
        Link(place.id, place.label, url, place.key, place.title, place.detail, place.id == owner)
        for place in PLACES
        if place.role in held and (url := address(place.route))
    ]


def _owner(route: str) -> str:
    """The place that a page belongs to: the one that names its route at the greatest length."""
    fits = [(len(start), place.id) for place in PLACES for start in place.here if route.startswith(start)]
    return "" if route == "run-new" or not fits else max(fits)[1]


def _keys(route: str, places: Iterable[Link], acts: Iterable[Action]) -> list[Keys]:
    here = [(key.key, key.label) for key in VIEW_KEYS if route in key.pages]
    here += [(act.key, act.label) for act in acts if act.key]
    parts = {
        "Everywhere": [(key.key, key.label) for key in VIEW_KEYS if not key.pages],
        "Go to": [(link.key, link.label) for link in places if link.key],
        "On this page": here,
    }
    return [Keys(title, [(_pressed(key), label) for key, label in rows]) for title, rows in parts.items() if rows]


def _pressed(key: str) -> list[str]:
    return [part for part in key.split() if part != "–"] if "–" not in key else [key.replace(" ", "")]


def _acts(acts: Iterable[Action], kwargs: dict[str, Any]) -> list[dict[str, Any]]:
    """Those whose form may stand on the page. A panel may hold forms of another object: then `url` is only the end
    of the form's address."""
    found = []
    for act in acts:
        known = all(name in kwargs for name in act.takes)
        url = address(act.route, **{name: kwargs[name] for name in act.takes}) if known else _tail(act)
        if url:
            key = "" if act.page_key else act.key
            row = {"label": act.label, "url": url, "fields": dict(act.sends), "key": key, "shown": act.key}
            found.append(row | {"tree": act.on_node})
    return found


def _denied(route: str, held: frozenset[Role]) -> dict[str, str]:
    """What a key of this page says to those who lack the role for its act."""
    taken = {key.key for key in VIEW_KEYS if route in key.pages or not key.pages} | {""}
    here = [act for act in registry.actions() if act.key not in taken and route in act.pages]
    lacking = [act for act in here if not _may(act, held)]
    start = "Your account is read-only. " if held == {Role.VIEWER} else ""
    return {
        act.key: f"{start}“{act.label}” needs the role {act.role}. An admin can add it to your account."
        for act in lacking
    }


def _tail(act: Action) -> str:
    """`/act` of `/rules/7/act`."""
    url = address(act.route, **dict.fromkeys(act.takes, 0))
    return "/" + url.rstrip("/").rsplit("/", 1)[-1] if url else ""
