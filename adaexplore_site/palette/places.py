"""Where people can go, and the keys that move the view."""

from __future__ import annotations

from dataclasses import dataclass

from adaexplore_site.core.access import Role


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
