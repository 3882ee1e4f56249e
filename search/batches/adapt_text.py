"""An adapt run in lines of text, for a terminal. Every share comes with its interval."""

from __future__ import annotations

from typing import Any

from adaexplore_site.core.text import one_line
from memory.adapt.models import AdaptTask
from search.batches.adapt_rows import AdaptRow


def task_line(task: AdaptTask) -> str:
    """One line when something was decided about a task, else empty."""
    if task.state == AdaptTask.State.REFUSED:
        return f"task {task.place}: refused. {one_line(task.reason, 160)}"
    if task.state == AdaptTask.State.STARTED and task.problem is not None:
        return f"task {task.place}: {one_line(task.problem.title, 120)}"
    return ""


def progress_line(row: AdaptRow) -> str:
    """State and counts in one line, and why it ended or waits."""
    adapt, done = row.adapt, row.progress
    refused = ", ".join(f"{count} {code}" for code, count in done.refusals)
    return (
        f"adapt run {adapt.pk} ({adapt.title}): {adapt.state}, {done.generated} tasks composed, {done.validated} "
        f"admitted, {done.attempted} attempted, {done.ended} ended"
        + (f"; refused: {refused}" if refused else "")
        + (f". {adapt.stop_reason}" if adapt.stop_reason else "")
    )


def effect_lines(document: dict[str, Any]) -> list[str]:
    """What was learned and what that did."""
    learned, effect, spent = document["learned"], document["effect"], document["spent"]
    lines = [
        f"  {learned['failures']} failures; rules: {learned['new']} new, {learned['merged']} merged, "
        f"{learned['repeated']} repeated, {learned['nothing']} nothing to learn, {learned['unfit']} unfit",
        f"  {_spent(spent)}",
    ]
    if not document["control_steps"]:
        return [*lines, "  no comparison: the run has no searches without memory"]
    with_memory, without = effect["pass_1"]
    lines += [
        f"  first attempts that pass: {_share(with_memory)} with memory, {_share(without)} without",
        f"  paired difference: {_difference(effect['first'])}",
        f"  where rules were in force: {_difference(effect['first_with_rules'])}",
        f"  share of the first {effect['k']} attempts: {_difference(effect['valid_k'])}",
        f"  best of {effect['k']}: {_difference(effect['best_k'])}",
        f"  {effect['verdict']}",
    ]
    return lines


def _spent(spent: dict[str, Any]) -> str:
    """Sums say "at least" where part of them is not known, and what that is."""
    seconds, tokens = f"{spent['device_s']:.0f} s of the device", f"{spent['tokens']} tokens"
    usd, least = f"${spent['usd']}", "at least "
    if spent["preflight_s"]:
        seconds += f", {spent['preflight_s']:.0f} s of it for preflights"
    if spent["unclocked"]:
        seconds = f"{least}{seconds} ({spent['unclocked']} preflights of unknown time)"
    if spent["untold"]:
        tokens = f"{least}{tokens} ({spent['untold']} calls told none)"
    if spent["unpriced"]:
        usd = f"{least}{usd} ({spent['unpriced']} calls unpriced)"
    return f"{seconds}, {tokens}, {usd}"


def _share(share: dict[str, Any]) -> str:
    if share["value"] is None:
        return "none yet"
    return f"{share['value']:.0%} [{share['low']:.0%}-{share['high']:.0%}] n={share['n']}"


def _difference(found: dict[str, Any]) -> str:
    if found["value"] is None:
        return "nothing to compare yet"
    return f"{100 * found['value']:+.1f} points [{100 * found['low']:+.1f}, {100 * found['high']:+.1f}] n={found['n']}"
