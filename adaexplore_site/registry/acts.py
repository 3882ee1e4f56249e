"""Every act of people, by the room whose rows it changes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from adaexplore_site.access import Role
from adaexplore_site.registry.entries import Act

VIEWER, OPERATOR, REVIEWER, ADMIN = Role.VIEWER, Role.OPERATOR, Role.REVIEWER, Role.ADMIN
RUN, NODE = ("run_id",), ("run_id", "number")
COCKPIT, PANEL = ("run-detail",), ("run-detail", "node-detail")


def _steer(name: str, label: str, *, key: str = "", pages: tuple[str, ...] = PANEL, inverse: str = "steer.undo") -> Act:
    """An act in the fold of a search's steering; what has a key is done to a node."""
    return Act(
        f"steer.{name}", label, OPERATOR, "run-steer", f"steer.{name}", RUN, {"act": name}, pages, key, tree=bool(key),
        inverse=inverse,
    )  # fmt: skip


def _mark(name: str, label: str, *, pages: tuple[str, ...], inverse: str, key: str = "") -> Act:
    """A mark on a kernel: it counts for bests and winners, wherever the kernel was found."""
    verb = f"kernel.{name}"
    tree = "run-detail" in pages and bool(key)
    return Act(verb, label, OPERATOR, "kernel-mark", verb, NODE, {"mark": name}, pages, key, tree=tree, inverse=inverse)


def _many(kind: str, word: str) -> Iterable[Act]:
    """Pause, resume and stop what starts many searches."""
    back = {"pause": f"{kind}.resume", "resume": f"{kind}.pause", "stop": ""}
    asks = "A page asks, as nothing starts the rest again."
    for name, inverse in back.items():
        yield Act(
            f"{kind}.{name}", f"{name.capitalize()} the {word}", OPERATOR, f"{kind}-{name}", f"{kind}.{name}",
            (f"{kind}_id",), pages=(f"{kind}-detail",), inverse=inverse, confirm="" if inverse else asks,
        )  # fmt: skip


SEARCH = (
    Act("run.start", "Start the search", OPERATOR, "run-new", "run.start", pages=("run-new",), inverse="run.stop"),
    Act("run.import", "Import", OPERATOR, "run-import", "run.import", pages=("run-import",), inverse="run.remove"),
    Act(
        "gallery.import", "Import and play", OPERATOR, "gallery", "run.import", pages=("gallery",), inverse="run.remove"
    ),
    Act(
        "run.remove", "Remove the imported search", OPERATOR, "run-remove", "run.remove", RUN,
        confirm="A page says what goes along with it.",
    ),
    Act("run.pause", "Pause the search", OPERATOR, "run-pause", "run.pause", RUN, pages=COCKPIT, inverse="run.resume"),
    Act(
        "run.resume", "Resume the search", OPERATOR, "run-resume", "run.resume", RUN, pages=COCKPIT,
        inverse="run.pause",
    ),
    Act("run.stop", "Stop the search", OPERATOR, "run-stop", "run.stop", RUN, pages=COCKPIT, inverse="run.resume"),
    Act(
        "run.kill", "Stop the search at once", OPERATOR, "run-stop", "run.kill", RUN, {"now": "1"}, COCKPIT,
        inverse="run.resume",
    ),
    Act(
        "run.archive", "Archive the search", OPERATOR, "run-archive", "run.archive", RUN, {"archived": "1"}, COCKPIT,
        inverse="run.unarchive",
    ),
    Act(
        "run.unarchive", "List the search again", OPERATOR, "run-archive", "run.unarchive", RUN, {"archived": ""},
        COCKPIT, inverse="run.archive",
    ),
    _steer("pin", "Pin the node", key="p"),
    _steer("prune", "Prune the node", key="x", inverse="steer.restore"),
    _steer("restore", "Restore the node"),
    _steer("boost", "Boost the node", key="s"),
    _steer("force", "Force the next step"),
    _steer("note", "Note for the prompts below", key="i"),
    _steer("inject", "Add a kernel by hand", key="a"),
    _steer("params", "Change parameters", pages=COCKPIT),
    Act(
        "steer.bulk", "Steer many nodes at once", OPERATOR, "run-bulk", "steer.bulk", RUN, pages=("run-bulk",),
        inverse="steer.undo",
    ),
    Act(
        "steer.undo", "Undo an act of steering", OPERATOR, "run-steer", "steer.undo", RUN, {"act": "undo"},
        stays="It takes an act back; the act can be done again.",
    ),
    Act(
        "run.budget", "Add to the budget", OPERATOR, "run-steer", "run.budget", RUN, {"act": "limits"}, COCKPIT,
        inverse="run.budget.undo",
    ),
    Act(
        "run.budget.undo", "Take added budget back", OPERATOR, "run-steer", "run.budget.undo", RUN,
        {"act": "limits-undo"}, inverse="run.budget",
    ),
    Act(
        "run.concurrency", "Set the steps in flight", OPERATOR, "run-steer", "run.concurrency", RUN,
        {"act": "concurrency"}, COCKPIT, inverse="run.concurrency",
    ),
    Act(
        "run.branch", "Branch a new search", OPERATOR, "node-branch", "run.branch", NODE, pages=PANEL, key="r",
        tree=True, inverse="run.stop",
    ),
    Act(
        "kernel.verify", "Judge and measure the kernel once more", OPERATOR, "kernel-verify", "kernel.verify", NODE,
        pages=(*PANEL, "kernel-list"), key="v", tree=True,
        stays="Both verdicts are kept; one that fails anew is quarantined.",
    ),
    Act(
        "kernel.dispute", "Dispute the verdict", OPERATOR, "kernel-dispute", "kernel.dispute", NODE, pages=PANEL,
        stays="Both verdicts are kept, with the reason.",
    ),
    Act(
        "kernel.race", "Measure as a pair", OPERATOR, "kernel-race", "kernel.race", NODE, pages=("compare",), key="m",
        stays="A measurement changes no verdict.",
    ),
    Act(
        "kernel.recheck.cancel", "Take the request back", OPERATOR, "kernel-recheck-cancel", "kernel.recheck.cancel",
        NODE, pages=PANEL, stays="Asking once more puts it into the queue again.",
    ),
    _mark("quarantine", "Quarantine the kernel", key="q", pages=PANEL, inverse="kernel.release"),
    _mark("flaky", "Mark the kernel as flaky", pages=PANEL, inverse="kernel.release"),
    _mark("release", "Believe the kernel again", pages=(*PANEL, "kernel-list"), inverse="kernel.quarantine"),
    _mark("retire", "Retire the kernel from the lead", key="x", pages=("kernel-list",), inverse="kernel.restore"),
    _mark("restore", "Let the kernel lead again", pages=("kernel-list",), inverse="kernel.retire"),
    Act(
        "node.reply", "Send the reply", OPERATOR, "node-reply", "node.reply", NODE, pages=("node-detail",),
        stays="A candidate that was handed in is judged and stays in the tree; pruning ends its branch.",
    ),
    Act(
        "campaign.start", "Start the campaign", OPERATOR, "campaign-new", "campaign.start", pages=("campaign-new",),
        inverse="campaign.stop",
    ),
    *_many("campaign", "campaign"),
    *_many("adapt", "adapt run"),
    Act(
        "adapt.start", "Start the adapt run", OPERATOR, "adapt-new", "adapt.start", pages=("adapt-new",),
        inverse="adapt.stop",
    ),
    Act(
        "adapt.transfer", "Search with and without what was learned", OPERATOR, "adapt-transfer", "adapt.start",
        ("adapt_id",), pages=("adapt-detail",), inverse="adapt.stop",
    ),
    *(
        Act(
            f"device.{name}", f"{name.capitalize()} the device", OPERATOR, "device-state", f"device.{name}",
            ("device_id",), {"state": state}, ("device-detail",), key, inverse=inverse,
        )
        for name, state, key, inverse in (
            ("activate", "active", "", "device.drain"),
            ("drain", "draining", "d", "device.activate"),
            ("quarantine", "quarantined", "", "device.activate"),
        )
    ),
    Act(
        "device.check", "Check the device", OPERATOR, "device-check", "device.check", ("device_id",),
        pages=("device-detail",), stays="A measurement changes nothing unless it fails.",
    ),
    Act(
        "node.revoke", "Take the evaluation back from the device", OPERATOR, "node-revoke", "node.revoke", NODE,
        confirm="A page asks, as what its worker has done so far is lost.",
    ),
    Act(
        "action.undo", "Undo an act", OPERATOR, "action-undo", "", ("action_id",),
        stays="It does the inverse of an act, which is audited under its own verb.",
    ),
)  # fmt: skip

SPEND = (
    Act(
        "spend.budget", "Set the budget of all searches", OPERATOR, "spend-budget", "spend.budget", pages=("spend",),
        inverse="spend.budget",
    ),
    Act(
        "price.set", "Set the price of a model", OPERATOR, "spend-price", "price.set", pages=("spend",),
        inverse="price.withdraw",
    ),
    Act(
        "price.withdraw", "Withdraw the price", OPERATOR, "spend-price-withdraw", "price.withdraw", ("price_id",),
        {"withdrawn": "1"}, inverse="price.restore",
    ),
    Act(
        "price.restore", "Use the price again", OPERATOR, "spend-price-withdraw", "price.restore", ("price_id",),
        {"withdrawn": ""}, inverse="price.withdraw",
    ),
)  # fmt: skip

JUDGE = (
    Act(
        "problem.upload", "Upload a problem", OPERATOR, "problem-upload", "problem.upload",
        stays="A problem that no search uses costs nothing, and equal text is never stored twice.",
    ),
    Act(
        "selftest.start", "Start the self-test", OPERATOR, "self-test-start", "selftest.start", ("device",),
        pages=("self-test-detail",), stays="A test changes nothing; searches on the device wait meanwhile.",
    ),
)  # fmt: skip


def _rule(name: str, label: str, *, key: str = "", inverse: str = "rule.undo") -> Act:
    pages = ("rule-list", "rule-detail") if key else ("rule-detail",)
    return Act(
        f"rule.{name}", label, REVIEWER, "rule-act", f"rule.{name}", ("rule_id",), {"act": name}, pages, key, True,
        inverse=inverse,
    )  # fmt: skip


def _cluster(name: str, label: str, *, key: str = "", inverse: str = "cluster.undo") -> Act:
    return Act(
        f"cluster.{name}", label, REVIEWER, "failure-act", f"cluster.{name}", ("key",), {"act": name},
        ("failure-cluster",), key, True, inverse=inverse,
    )  # fmt: skip


MEMORY = (
    _rule("approve", "Approve the rule", key="a"),
    _rule("reject", "Reject the rule", key="r"),
    _rule("edit", "Edit the rule", key="e"),
    _rule("merge", "Merge the rule into another", key="m"),
    _rule("split", "Split the rule", key="v"),
    _rule("defer", "Defer the rule", key="s"),
    _rule("scope", "Change the scope of the rule", key="1 – 4"),
    _rule("retire", "Retire the rule"),
    _rule("restore", "Propose the rule again"),
    _rule("rollback", "Roll the rule back"),
    _rule("unmerge", "Part the rule again"),
    Act("rule.create", "Propose a rule", OPERATOR, "rule-new", "rule.create", pages=("rule-new",), inverse="rule.undo"),
    Act(
        "rules.import", "Import rules", REVIEWER, "rule-import", "rules.import", pages=("rule-list",),
        inverse="rule.undo",
    ),
    Act(
        "rules.bulk", "Decide many rules at once", REVIEWER, "rule-bulk", "rules.bulk", pages=("rule-bulk",),
        inverse="rule.undo",
    ),
    Act(
        "rule.undo", "Undo the last act on rules", REVIEWER, "rule-undo", "rule.undo", (), {},
        ("rule-list",), "u", True, stays="It takes an act back; the act can be done again.",
    ),
    _cluster("assign", "Assign the cluster"),
    _cluster("mute", "Mute the cluster", key="m", inverse="cluster.unmute"),
    _cluster("unmute", "List the cluster again", inverse="cluster.mute"),
    _cluster("merge", "Merge the cluster into another", inverse="cluster.split"),
    _cluster("split", "Split the cluster off"),
    _cluster("propose", "Propose a rule from the cluster", key="y"),
    Act(
        "cluster.undo", "Undo an act on the cluster", REVIEWER, "failure-act", "cluster.undo", ("key",),
        {"act": "undo"}, stays="It takes an act back; the act can be done again.",
    ),
)  # fmt: skip

VIEWS = (
    Act(
        "view.save", "Save the view", VIEWER, "view-save", "view.save",
        pages=("run-list", "kernel-list", "failure-list", "rule-list", "activity"), inverse="view.delete",
    ),
    Act("view.rename", "Rename the view", VIEWER, "view-rename", "view.rename", ("view_id",), inverse="view.rename"),
    Act(
        "view.delete", "Delete the view", VIEWER, "view-delete", "view.delete", ("view_id",), {"deleted": "1"},
        inverse="view.restore",
    ),
    Act(
        "view.restore", "Put the view back", VIEWER, "view-delete", "view.restore", ("view_id",), {"deleted": ""},
        inverse="view.delete",
    ),
)  # fmt: skip

SITE = (
    Act("member.invite", "Invite a member", ADMIN, "member-invite", "member.invite", inverse="member.off"),
    Act(
        "member.roles", "Change a member's roles", ADMIN, "member-roles", "member.roles", ("user_id",),
        inverse="member.roles",
    ),
    Act(
        "member.link", "Make a sign-in link", ADMIN, "member-link", "member.link", ("user_id",),
        stays="The link is used once or expires; switching the member off voids it.",
    ),
    Act(
        "member.off", "Switch a member off", ADMIN, "member-access", "member.off", ("user_id",),
        {"active": ""}, inverse="member.on",
    ),
    Act(
        "member.on", "Switch a member on", ADMIN, "member-access", "member.on", ("user_id",),
        {"active": "1"}, inverse="member.off",
    ),
    Act("token.issue", "Issue a token", OPERATOR, "token-issue", "token.issue", inverse="token.revoke"),
    Act(
        "token.revoke", "Revoke a token", OPERATOR, "token-revoke", "token.revoke", ("token_id",),
        stays="Its text is gone anyway; whoever needs one is given a new one.",
    ),
    Act("webhook.add", "Add a webhook", ADMIN, "webhook-add", "webhook.add", inverse="webhook.remove"),
    *(
        Act(
            f"webhook.{name}", f"Switch a webhook {name}", ADMIN, "webhook-switch", f"webhook.{name}", ("webhook_id",),
            {"on": value}, inverse=inverse,
        )
        for name, value, inverse in (("on", "1", "webhook.off"), ("off", "", "webhook.on"))
    ),
    Act(
        "webhook.test", "Test a webhook", ADMIN, "webhook-test", "webhook.test", ("webhook_id",),
        stays="It sends one message that says that it is a test.",
    ),
    Act(
        "webhook.remove", "Remove a webhook", ADMIN, "webhook-remove", "webhook.remove", ("webhook_id",),
        confirm="A page asks, as what waits for it is lost.",
    ),
)  # fmt: skip

ACTS: tuple[Act, ...] = (*SEARCH, *SPEND, *JUDGE, *MEMORY, *VIEWS, *SITE)

# Routes that take a POST and are no act, each with the reason.
NOT_ACTS: Mapping[str, str] = {
    "sign-in": "a session begins: nothing of the product changes",
    "sign-out": "a session ends",
    "notice-seen": "moves a person's own mark: nothing of the product changes",
    "problem-preflight": "asks the judge to look at a problem; whoever opens a new search does so, too",
    "rule-hold": "a claim of one minute on a card, which ends by itself",
}


def acts_by_id(acts: Iterable[Act] = ACTS) -> dict[str, Act]:
    """Id -> act. Raises ValueError when two share one."""
    found: dict[str, Act] = {}
    for act in acts:
        if act.id in found:
            raise ValueError(f"two acts are called {act.id}")
        found[act.id] = act
    return found
