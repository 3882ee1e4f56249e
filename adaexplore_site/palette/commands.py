"""Pages and actions by key and by name: what each page puts into the command palette."""

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


@dataclass(frozen=True)
class Place:
    """Somewhere to go. `here` begins the names of the routes that belong to it; with `bar` it stands in the bar."""

    id: str
    label: str
    route: str
    key: str = ""
    role: Role = Role.VIEWER
    bar: bool = False
    here: tuple[str, ...] = ()
    title: str = ""
    detail: str = ""  # what one finds there, for the palette


@dataclass(frozen=True)
class ViewKey:
    """A key that changes nothing but what its reader sees. Without `pages` it works everywhere."""

    key: str
    label: str
    pages: tuple[str, ...] = ()


PLACES = (
    Place(
        "searches", "Searches", "run-list", "g s", bar=True, here=("run-", "node-", "campaign-", "report"),
        detail="Every search with its best kernel",
    ),
    Place("kernels", "Kernels", "kernel-list", "g k", bar=True, here=("kernel-", "compare"), detail="The best kernels"),
    Place(
        "problems", "Problems", "problem-list", "g p", bar=True, here=("problem-",), detail="Problems to search"
    ),
    Place(
        "failures", "Failures", "failure-list", "g e", bar=True, here=("failure-", "run-failures"),
        detail="Clusters of failures with one cause",
    ),
    Place("rules", "Rules", "rule-list", "g r", bar=True, here=("rule-",), detail="The review queue and the library"),
    Place(
        "judge", "Judge", "self-test-list", "g j", bar=True, here=("self-test-",),
        detail="How the judge itself is tested",
    ),
    Place("fleet", "Fleet", "device-list", "g f", bar=True, here=("device-",), detail="Devices: their work and health"),
    Place(
        "lab", "Lab", "lab-list", "g l", bar=True, here=("lab-",), title="Policy laboratory",
        detail="Policies compared on simulated spaces",
    ),
    Place(
        "adapt", "Adapt", "adapt-list", "g t", bar=True, here=("adapt-",), title="Learn rules on composed tasks",
        detail="Runs that learn rules on composed tasks",
    ),
    Place("spend", "Spend", "spend", "g m", here=("spend",), detail="Money and tokens"),
    Place("activity", "Activity", "activity", "g a", here=("activity",), detail="Who did what, with Undo"),
    Place("notices", "Notifications", "notice-list", "g i", here=("notice-",), detail="Attention needed, and events"),
    Place("campaigns", "Campaigns", "campaign-list", "g c", detail="Searches over many problems"),
    Place("gallery", "Gallery", "gallery", detail="Recorded searches to replay"),
    Place("report", "Report", "report", detail="Aggregates over many searches"),
    Place("settings", "Settings", "settings", "g ,", detail="Theme, shortcuts, members, tokens, providers"),
    Place("api", "API", "api-docs", detail="Reference of the REST API"),
    Place("find", "Find", "find", detail="Searches, problems, rules and kernels by name"),
    Place("new", "New search", "run-new", "n", role=Role.OPERATOR, detail="Choose a problem and start"),
    Place("campaign-new", "New campaign", "campaign-new", role=Role.OPERATOR, detail="Search many problems"),
    Place("adapt-new", "New adapt run", "adapt-new", role=Role.OPERATOR, detail="Learn rules"),
    Place("import", "Import a search", "run-import", role=Role.OPERATOR, detail="A packed search or a run folder"),
    Place("rule-new", "Propose a rule", "rule-new", role=Role.OPERATOR, detail="Write a rule for review"),
)  # fmt: skip

COCKPIT, NODE, QUEUE = ("run-detail",), ("node-detail",), ("rule-list",)
LISTS = (
    "run-list", "problem-list", "campaign-list", "adapt-list", "device-list", "lab-list", "failure-list",
    "run-failures", "rule-list", "activity", "run-activity", "kernel-list", "notice-list",
)  # fmt: skip

VIEW_KEYS = (
    ViewKey("Ctrl K", "Find a page, a search or an action"),
    ViewKey("/", "Go to the filter"),
    ViewKey("?", "Show this list"),
    ViewKey("Esc", "Close a dialog, menu or panel"),
    ViewKey("j k", "Next and previous row", LISTS),
    ViewKey("Enter", "Open the row", LISTS),
    ViewKey("[ ]", "Previous and next tab", ("settings", "settings-tab")),
    ViewKey("u", "Undo the selected action", ("activity", "run-activity")),
    ViewKey("c", "Tick the best kernel for a comparison", ("run-list",)),
    ViewKey("c", "Tick the kernel for a comparison", ("run-detail", "node-detail", "kernel-list")),
    ViewKey("Shift C", "Compare what is ticked", ("run-list", "run-detail", "node-detail", "kernel-list")),
    ViewKey("u", "Undo the last action", ("run-detail", "node-detail", "kernel-list", "run-list", "device-detail")),
    ViewKey("1 – 4", "Baseline", ("compare",)),
    ViewKey("s", "Swap baseline and other", ("compare",)),
    ViewKey("1 – 3", "Grouping", ("spend",)),
    ViewKey("d", "Drain the device if only one is shown", ("device-list",)),
    ViewKey("y", "Play or pause the replay", COCKPIT),
    ViewKey(", .", "One step back or forward in the replay", COCKPIT),
    ViewKey("e", "Archive an ended search", ("run-list",)),
    ViewKey("b", "Best node", COCKPIT),
    ViewKey("e", "Newest node", COCKPIT),
    ViewKey("t", "Switch between tree and table", COCKPIT),
    ViewKey("o", "Follow the newest node", COCKPIT),
    ViewKey("0", "Show the whole tree", COCKPIT),
    ViewKey("+ -", "Zoom", COCKPIT),
    ViewKey("[ ]", "Parent, best child", COCKPIT),
    ViewKey("l", "Pause or resume live updates", COCKPIT),
    ViewKey("Shift D", "Download the best kernel", COCKPIT),
    ViewKey("d", "Diff of the selected node", COCKPIT),
    ViewKey("[ ]", "Parent, best child", NODE),
    ViewKey("1 – 6", "Tabs", NODE),
    ViewKey("h H", "Next and previous change", ("run-detail", "node-detail", "compare")),
)


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
    here += [(act.key, str(act.label)) for act in acts if act.key]
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
            row = {"label": str(act.label), "url": url, "fields": dict(act.sends), "key": key, "shown": act.key}
            found.append(row | {"tree": act.on_node})
    return found


def _denied(route: str, held: frozenset[Role]) -> dict[str, str]:
    """What a key of this page says to those who lack the role for its act."""
    taken = {key.key for key in VIEW_KEYS if route in key.pages or not key.pages} | {""}
    here = [act for act in registry.actions() if act.key not in taken and route in act.pages]
    lacking = [act for act in here if not _may(act, held)]
    start = "Your role is viewer: you can read but not change anything. " if held == {Role.VIEWER} else ""
    return {
        act.key: f"{start}“{act.label}” needs the role {act.role}. An admin can add it to your account."
        for act in lacking
    }


def _tail(act: Action) -> str:
    """`/act` of `/rules/7/act`."""
    url = address(act.route, **dict.fromkeys(act.takes, 0))
    return "/" + url.rstrip("/").rsplit("/", 1)[-1] if url else ""
