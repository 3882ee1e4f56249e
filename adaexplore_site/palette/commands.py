"""Pages and actions by key and by name: what each page puts into the command palette."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from django.http import HttpRequest
from django.urls import NoReverseMatch, reverse
from django.utils.functional import SimpleLazyObject
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from adaexplore_site.actions import registry
from adaexplore_site.actions.action import Action
from adaexplore_site.core.access import Role, roles_of

if TYPE_CHECKING:
    from django_stubs_ext import StrOrPromise


@dataclass(frozen=True)
class Place:
    """Somewhere to go. `here` begins the names of the routes that belong to it; with `bar` it stands in the bar."""

    id: str
    label: StrOrPromise
    route: str
    key: str = ""
    role: Role = Role.VIEWER
    bar: bool = False
    here: tuple[str, ...] = ()
    title: StrOrPromise = ""
    detail: StrOrPromise = ""  # what one finds there, for the palette


@dataclass(frozen=True)
class ViewKey:
    """A key that changes nothing but what its reader sees. Without `pages` it works everywhere."""

    key: str
    label: StrOrPromise
    pages: tuple[str, ...] = ()


PLACES = (
    Place(
        "searches", _("Searches"), "run-list", "g s", bar=True, here=("run-", "node-", "campaign-", "report"),
        detail=_("Every search with its best kernel"),
    ),
    Place(
        "kernels", _("Kernels"), "kernel-list", "g k", bar=True, here=("kernel-", "compare"),
        detail=_("The best kernels"),
    ),
    Place(
        "problems", _("Problems"), "problem-list", "g p", bar=True, here=("problem-",), detail=_("Problems to search")
    ),
    Place(
        "failures", _("Failures"), "failure-list", "g e", bar=True, here=("failure-", "run-failures"),
        detail=_("Clusters of failures with one cause"),
    ),
    Place(
        "rules", _("Rules"), "rule-list", "g r", bar=True, here=("rule-",),
        detail=_("The review queue and the library"),
    ),
    Place(
        "judge", _("Judge"), "self-test-list", "g j", bar=True, here=("self-test-",),
        detail=_("How the judge itself is tested"),
    ),
    Place(
        "fleet", _("Fleet"), "device-list", "g f", bar=True, here=("device-",),
        detail=_("Devices: their work and health"),
    ),
    Place(
        "lab", _("Lab"), "lab-list", "g l", bar=True, here=("lab-",), title=_("Policy laboratory"),
        detail=_("Policies compared on simulated spaces"),
    ),
    Place(
        "adapt", _("Adapt"), "adapt-list", "g t", bar=True, here=("adapt-",), title=_("Learn rules on composed tasks"),
        detail=_("Runs that learn rules on composed tasks"),
    ),
    Place("spend", _("Spend"), "spend", "g m", here=("spend",), detail=_("Money and tokens")),
    Place("activity", _("Activity"), "activity", "g a", here=("activity",), detail=_("Who did what, with Undo")),
    Place(
        "notices", _("Notifications"), "notice-list", "g i", here=("notice-",),
        detail=_("Attention needed, and events"),
    ),
    Place("campaigns", _("Campaigns"), "campaign-list", "g c", detail=_("Searches over many problems")),
    Place("gallery", _("Gallery"), "gallery", detail=_("Recorded searches to replay")),
    Place("report", _("Report"), "report", detail=_("Aggregates over many searches")),
    Place("settings", _("Settings"), "settings", "g ,", detail=_("Theme, shortcuts, members, tokens, providers")),
    Place("api", _("API"), "api-docs", detail=_("Reference of the REST API")),
    Place("find", _("Find"), "find", detail=_("Searches, problems, rules and kernels by name")),
    Place("new", _("New search"), "run-new", "n", role=Role.OPERATOR, detail=_("Choose a problem and start")),
    Place("campaign-new", _("New campaign"), "campaign-new", role=Role.OPERATOR, detail=_("Search many problems")),
    Place("adapt-new", _("New adapt run"), "adapt-new", role=Role.OPERATOR, detail=_("Learn rules")),
    Place(
        "import", _("Import a search"), "run-import", role=Role.OPERATOR,
        detail=_("A packed search or a run folder"),
    ),
    Place("rule-new", _("Propose a rule"), "rule-new", role=Role.OPERATOR, detail=_("Write a rule for review")),
)  # fmt: skip

COCKPIT, NODE, QUEUE = ("run-detail",), ("node-detail",), ("rule-list",)
LISTS = (
    "run-list", "problem-list", "campaign-list", "adapt-list", "device-list", "lab-list", "failure-list",
    "run-failures", "rule-list", "activity", "run-activity", "kernel-list", "notice-list",
)  # fmt: skip

VIEW_KEYS = (
    ViewKey("Ctrl K", _("Find a page, a search or an action")),
    ViewKey("/", _("Go to the filter")),
    ViewKey("?", _("Show this list")),
    ViewKey("Esc", _("Close a dialog, menu or panel")),
    ViewKey("j k", _("Next and previous row"), LISTS),
    ViewKey("Enter", _("Open the row"), LISTS),
    ViewKey("[ ]", _("Previous and next tab"), ("settings", "settings-tab")),
    ViewKey("u", _("Undo the selected action"), ("activity", "run-activity")),
    ViewKey("c", _("Tick the best kernel for a comparison"), ("run-list",)),
    ViewKey("c", _("Tick the kernel for a comparison"), ("run-detail", "node-detail", "kernel-list")),
    ViewKey("Shift C", _("Compare what is ticked"), ("run-list", "run-detail", "node-detail", "kernel-list")),
    ViewKey("u", _("Undo the last action"), ("run-detail", "node-detail", "kernel-list", "run-list", "device-detail")),
    ViewKey("1 – 4", _("Baseline"), ("compare",)),
    ViewKey("s", _("Swap baseline and other"), ("compare",)),
    ViewKey("1 – 3", _("Grouping"), ("spend",)),
    ViewKey("d", _("Drain the device if only one is shown"), ("device-list",)),
    ViewKey("y", _("Play or pause the replay"), COCKPIT),
    ViewKey(", .", _("One step back or forward in the replay"), COCKPIT),
    ViewKey("e", _("Archive an ended search"), ("run-list",)),
    ViewKey("b", _("Best node"), COCKPIT),
    ViewKey("e", _("Newest node"), COCKPIT),
    ViewKey("t", _("Switch between tree and table"), COCKPIT),
    ViewKey("o", _("Follow the newest node"), COCKPIT),
    ViewKey("0", _("Show the whole tree"), COCKPIT),
    ViewKey("+ -", _("Zoom"), COCKPIT),
    ViewKey("[ ]", _("Parent, best child"), COCKPIT),
    ViewKey("l", _("Pause or resume live updates"), COCKPIT),
    ViewKey("Shift D", _("Download the best kernel"), COCKPIT),
    ViewKey("d", _("Diff of the selected node"), COCKPIT),
    ViewKey("[ ]", _("Parent, best child"), NODE),
    ViewKey("1 – 6", _("Tabs"), NODE),
    ViewKey("h H", _("Next and previous change"), ("run-detail", "node-detail", "compare")),
)


@dataclass(frozen=True)
class Link:
    """A place with its address, as the person may open it."""

    id: str
    label: StrOrPromise
    url: str
    key: str
    title: StrOrPromise
    detail: StrOrPromise
    current: bool


@dataclass(frozen=True)
class Keys:
    """One part of the shortcut help: rows of (keys pressed one after the other, what they do)."""

    title: StrOrPromise
    rows: list[tuple[list[str], StrOrPromise]]


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
        _("Everywhere"): [(key.key, key.label) for key in VIEW_KEYS if not key.pages],
        _("Go to"): [(link.key, link.label) for link in places if link.key],
        _("On this page"): here,
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
    start = gettext("Your role is viewer: you can read but not change anything. ") if held == {Role.VIEWER} else ""
    why = gettext("“%(action)s” needs the role %(role)s. An admin can add it to your account.")
    return {act.key: start + why % {"action": act.label, "role": act.role} for act in lacking}


def _tail(act: Action) -> str:
    """`/act` of `/rules/7/act`."""
    url = address(act.route, **dict.fromkeys(act.takes, 0))
    return "/" + url.rstrip("/").rsplit("/", 1)[-1] if url else ""
