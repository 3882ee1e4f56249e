"""Acts of people on a search in words, for the feed and for the list of acts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_RUN = {
    "run.start": "started the search",
    "run.import": "imported the search",
    "run.remove": "removed the imported search",
    "run.pause": "paused the search",
    "run.resume": "resumed the search",
    "run.kill": "stopped the search at once",
    "run.stop": "stopped the search",
    "run.archive": "archived the search",
    "run.unarchive": "listed the search again",
    "node.reply": "replied by hand",
    "kernel.verify": "is to be judged once more",
    "kernel.dispute": "has a disputed verdict and is to be judged once more",
    "kernel.recheck.cancel": "is not to be judged once more after all",
    "kernel.quarantine": "is quarantined",
    "kernel.flaky": "is marked as flaky",
    "kernel.release": "is believed again",
    "kernel.retire": "is retired: it leads no list of kernels",
    "kernel.restore": "may lead the list of kernels again",
    "node.revoke": "was taken back from its device and queued anew",
}


def act_text(verb: str, payload: Mapping[str, Any]) -> str:
    """What an act amounts to, as a phrase that stands after "Node 7", or by itself when it is about no node."""
    match verb:
        case "steer.pin":
            quota = payload.get("quota", 0)
            return f"is pinned: the next {_count(quota, 'selection')} at or below it"
        case "steer.prune":
            return "is pruned: nothing at or below it is selected"
        case "steer.restore":
            return "is open to the search again"
        case "steer.boost":
            boost = payload.get("boost", 0.0)
            return f"has {boost:+g} added to its score" if boost else "has its own score again"
        case "steer.force":
            kind = payload.get("kind", "large")
            return f"takes a {kind} step next" if "number" in payload else f"The next possible step is a {kind} one"
        case "steer.bulk":
            return _many(payload)
        case "steer.note":
            return "has a note for the prompts of the steps below it"
        case "steer.params":
            return "Parameters changed"
        case "run.budget" | "budget.added" | "steer.budget":
            return "Budget added"
        case "run.budget.undo" | "budget.taken":
            return _TAKEN
        case "steer.inject":
            return f"was written by hand, below node {payload.get('parent', 0)}"
        case "steer.undo":
            return _NAMES.get(str(payload.get("verb", "")), "Undone: an act")
        case "run.branched" | "run.branch":
            return "begins a search of its own" + (f", #{payload['run']}" if "run" in payload else "")
        case "run.concurrency":
            return f"Steps in flight {payload.get('before')} → {payload.get('after')}"
        case "kernel.race":
            rival = str(payload.get("rival", ""))  # of an import: anything
            return f"is to race #{rival}" if rival.replace(".", "", 1).isdecimal() else "is to race another kernel"
        case "run.export":
            return f"exported the {payload.get('what', 'search')}"
    return _RUN.get(verb, verb.replace(".", " "))


def _many(payload: Mapping[str, Any]) -> str:
    """One act on many nodes, as `search.services.steering_bulk` logs it."""
    count, verb = payload.get("count", 0), payload.get("verb", "")
    nodes, are = _count(count, "node"), "is" if count == 1 else "are"
    if verb == "prune":
        return f"{nodes} {are} pruned: nothing at or below {'it' if count == 1 else 'them'} is selected"
    if verb == "restore":
        return f"{nodes} {are} open to the search again"
    if verb == "pin":
        return f"{nodes} {are} pinned: {_count(payload.get('quota', 0), 'selection')} each"
    if verb == "boost":
        boost, has = payload.get("boost", 0.0), "has" if count == 1 else "have"
        score = "its own score" if count == 1 else "their own scores"
        to = "its score" if count == 1 else "their scores"
        return f"{nodes} {has} {boost:+g} added to {to}" if boost else f"{nodes} {has} {score} again"
    return f"An act on {nodes}"


_TAKEN = "Added budget taken back"
_NAMES = {
    "steer.pin": "Undone: pin",
    "steer.prune": "Undone: prune",
    "steer.restore": "Undone: restore",
    "steer.boost": "Undone: boost",
    "steer.force": "Undone: forced step",
    "steer.note": "Undone: note",
    "steer.params": "Undone: change of parameters",
    "steer.budget": _TAKEN,
    "steer.inject": "Undone: kernel by hand",
    "steer.bulk": "Undone: act on many nodes",
}


def act_detail(verb: str, payload: Mapping[str, Any], before: Mapping[str, Any] | None = None) -> str:
    """The text of a note, the parameters that changed."""
    if verb == "steer.note":
        return str(payload.get("text", ""))
    if verb == "steer.bulk":
        return str(payload.get("words", ""))
    if verb.startswith("kernel."):
        return str(payload.get("note") or payload.get("doubt_reason") or "")
    if verb == "run.remove":
        return removal_text(before or {})
    if verb == "steer.budget":
        total, steps = payload.get("total", 0), payload.get("steps", 0)
        return limits_text({"steps": total - steps}, {"steps": total})
    if verb in ("run.budget", "run.budget.undo"):
        return limits_text(before or {}, {name: payload[name] for name in payload if name != "action"})
    if verb == "steer.params":
        old = (before or {}).get("params", {})
        changes = payload.get("params", {})
        return ", ".join(
            f"{name} {old[name]} → {value}" if name in old else f"{name} {value}" for name, value in changes.items()
        )
    return ""


def removal_text(gone: Mapping[str, Any]) -> str:
    """What went with a removed search."""
    counts = [_count(gone.get(name, 0), name.removesuffix("s")) for name in ("nodes", "verdicts", "failures")]
    if gone.get("sightings"):
        counts.append(f"{_count(gone['sightings'], 'sighting')} of rules no longer in force")
    return f"{gone.get('title', '')}, file {gone.get('file', '')}: {', '.join(counts)}"


def limits_text(before: Mapping[str, Any], after: Mapping[str, Any]) -> str:
    """`steps 20 → 30, wall_s 60 → 90`."""
    return ", ".join(f"{name} {before.get(name)} → {value}" for name, value in after.items())


def _count(count: int, noun: str) -> str:
    return f"{count} {noun}" + ("" if count == 1 else "s")
