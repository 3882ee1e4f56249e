"""What the form of each act asks for, for those who send no form: names, types and units of its fields.

A form's view decides what is right; this says what can be sent at all. An act that stands here takes no other field.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class File:
    """A file in a request: its name and its content."""


@dataclass(frozen=True)
class Ask:
    """One field. `needed` ones cannot be left out."""

    name: str
    type: object = str
    words: str = ""
    needed: bool = False


def need(name: str, type: object = str, words: str = "") -> Ask:
    """A field that the act cannot do without."""
    return Ask(name, type, words, True)


NODE = need("number", int, "number of the node")
REVISION = need("revision", int, "of the rule as it was read; an older one is refused with the rule as it is now")
FILE = need("file", File, "name, and text or base64")
PRESET = Ask("preset", words="name of a preset of parameters")
SEED = Ask("seed", int, "random when left out")
MEMORY = (
    Ask("rules", words="reviewed, auto or off"),
    Ask("learns", bool),
    Ask("rule_threshold", int),
    Ask("rule_tokens", int),
    Ask("rule_withhold", float, "percent"),
)
LIMITS = (
    Ask("evaluations", int), Ask("device_minutes", float), Ask("tokens", int), Ask("usd"), Ask("wall_minutes", float),
    Ask("stale_steps", int), Ask("target_speedup", float), Ask("roofline_percent", float), Ask("step_device_s", float),
    Ask("step_tokens", int), Ask("step_usd"),
)  # fmt: skip
ADDED = (
    Ask("steps", int), Ask("evaluations", int), Ask("device_s", float), Ask("tokens", int), Ask("usd"),
    Ask("wall_s", float), Ask("stale_steps", int),
)  # fmt: skip
WHERE = (need("device", words="name"), need("proposer"))
REASON = (Ask("reason", words="number of a reason"), Ask("own_reason", words="or in your words"))
SCOPE = (Ask("family"), Ask("arch", words="such as sm_90"), Ask("triton", words="such as >=3.4,<3.6"))
SURE = Ask("sure", bool, "true: yes, do what nothing takes back")

ASKS: Mapping[str, tuple[Ask, ...]] = {
    "run.start": (
        need("problem", words="slug"), *WHERE, need("steps", int), SEED, PRESET, Ask("title"), Ask("concurrency", int),
        *LIMITS, *MEMORY, Ask("dialect"),
    ),
    "run.import": (FILE,),
    "gallery.import": (Ask("name", words="of a recorded search on this machine"), Ask("file", File)),
    **dict.fromkeys(
        ("run.remove", "run.pause", "run.resume", "run.stop", "run.kill", "run.archive", "run.unarchive",
         "campaign.pause", "campaign.resume", "adapt.pause", "adapt.resume", "device.check", "selftest.start",
         "action.undo", "cluster.mute", "cluster.unmute", "member.link", "member.off", "member.on", "token.revoke",
         "webhook.on", "webhook.off", "webhook.test"),
        (),
    ),
    **dict.fromkeys(("kernel.verify", "kernel.release", "kernel.retire", "kernel.restore"), ()),
    **dict.fromkeys(("kernel.quarantine", "kernel.flaky"), (Ask("reason", words="why, stands beside the mark"),)),
    "kernel.dispute": (need("reason", words="why the verdict is doubted"),),
    "kernel.race": (need("rival", words="search.node, such as 4.17"),),
    "kernel.recheck.cancel": (need("recheck", int, "number of the request, of kernel.asked in the search's log"),),
    "spend.budget": (
        Ask("day_usd", words="empty: none"), Ask("month_usd", words="empty: none"), need("alert_percent", int),
        Ask("pauses", bool, "searches that pay, once it is passed"),
    ),
    "price.set": (
        need("model", words="as its calls name it"), need("usd_per_m_in"), need("usd_per_m_out"), Ask("source"),
    ),
    **dict.fromkeys(("price.withdraw", "price.restore", "view.delete", "view.restore"), ()),
    "view.save": (
        need("place", words="such as run-list"), need("name"), Ask("query", words="without ?"), Ask("shared", bool),
    ),
    "view.rename": (need("name"), Ask("shared", bool)),
    "node.revoke": (SURE,),
    "campaign.stop": (SURE,),
    "adapt.stop": (SURE,),
    "steer.pin": (NODE, need("quota", int, "selections")),
    "steer.prune": (NODE,),
    "steer.restore": (NODE,),
    "steer.boost": (NODE, need("boost", float)),
    "steer.force": (need("kind", words="large or small"), Ask("number", int, "node to go on from")),
    "steer.note": (NODE, need("text")),
    "steer.inject": (need("source"), Ask("kind", words="large or small"), Ask("number", int, "its parent")),
    "steer.bulk": (
        need("act", words="prune, pin, boost or restore"), need("expected", int, "nodes that it reaches"),
        Ask("typed", int, "the same above 50"), Ask("quota", int, "selections at each node"), Ask("boost", float),
        Ask("state", list[str], "such as wrong, compile-error, slower"), Ask("kind", words="large or small"),
        Ask("under", float, "speedup over eager"), Ask("below", int, "node above them"),
        Ask("q", words="number, reason or change"), Ask("told", int, "leave out what was told later"), Ask("seen"),
    ),
    "steer.undo": (need("seq", int, "number of the event"),),
    "run.budget": ADDED,
    "run.budget.undo": (need("action", int, "number of the act that added"),),
    "run.concurrency": (need("concurrency", int, "steps in flight"),),
    "run.branch": (need("steps", int), Ask("proposer"), Ask("device", words="name")),
    "node.reply": (need("text", words="the reply, with its code in a fenced block"),),
    "campaign.start": (
        need("problem", list[str], "slugs"), *WHERE, need("steps", int, "all problems together"),
        need("at_once", int), need("concurrency", int), need("seeds", words="spread or same"), need("preset"), SEED,
        Ask("title"), *MEMORY, Ask("dialect"),
    ),
    "adapt.start": (
        *WHERE, need("tasks", int), need("steps", int, "on each"), need("control_steps", int),
        need("composer", words="builtin or model"), need("preset"), need("trust", words="auto or reviewed"),
        need("threshold", int), need("at_once", int), need("concurrency", int), SEED, Ask("title"), Ask("tokens"),
        Ask("usd"), Ask("device_s"), Ask("wall_s"),
    ),
    "adapt.transfer": (need("problem", list[str], "slugs"), need("steps", int)),
    **{f"device.{name}": (Ask("reason"),) for name in ("activate", "drain", "quarantine")},
    "problem.upload": (FILE,),
    "rule.approve": (REVISION,),
    "rule.reject": (REVISION, *REASON),
    "rule.edit": (REVISION, need("text"), Ask("why")),
    "rule.merge": (REVISION, need("into", int, "number of the other rule")),
    "rule.split": (REVISION, need("failure", list[int], "sightings for the new rule"), need("text")),
    "rule.defer": (REVISION, Ask("days", int)),
    "rule.scope": (REVISION, *SCOPE),
    "rule.retire": (REVISION, *REASON),
    "rule.restore": (REVISION,),
    "rule.rollback": (REVISION, need("number", int, "of the version")),
    "rule.unmerge": (REVISION,),
    "rule.create": (need("text"), *SCOPE),
    "rules.import": (FILE,),
    "rules.bulk": (
        need("act"), need("expected", int, "rules that it changes"), Ask("typed", int, "the same above 50"), *REASON,
        Ask("seen"), Ask("tab"), Ask("q"), Ask("origin"), Ask("scope"), Ask("least", int), Ask("flagged", bool),
    ),
    "rule.undo": (need("action", int, "number of the act"),),
    "cluster.assign": (Ask("assignee", words="user name; empty for nobody"),),
    "cluster.merge": (need("into", words="key of the other cluster"),),
    "cluster.split": (Ask("part", words="key of the cluster to part"),),
    "cluster.propose": (Ask("claim"), *SCOPE),
    "cluster.undo": (need("action", int, "number of the act"),),
    "member.invite": (need("name"), Ask("role", list[str])),
    "member.roles": (Ask("role", list[str]),),
    "webhook.add": (need("address"), need("event", list[str], "such as search.finished")),
    "webhook.remove": (SURE,),
    "token.issue": (
        need("name"), need("scope", list[str], "read, steer, review, admin"), Ask("days", int, "until it ends"),
    ),
}  # fmt: skip
