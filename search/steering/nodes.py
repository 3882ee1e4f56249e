"""Acts on a node of a running search: pin, prune, restore, boost, force the next step, note."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING

from adaexplore_site.core.audit import ActionRefused
from adaexplore_site.core.text import storable_text
from search.algorithm.steering import FORCE, PIN
from search.algorithm.tree import LARGE, SMALL
from search.records.follow_ups import Hop
from search.records.models import Run
from search.records.steering_log import notes_at
from search.steering.desk import Desk, Done, steer

if TYPE_CHECKING:
    from django.contrib.auth.models import AbstractBaseUser

MAX_QUOTA = 1000
MAX_BOOST = 10.0  # rewards lie between 0 and 1.6
NOTE_CHARS = 1000
NOTE_BYTES = 1500  # as JSON in the log: an event holds 2 kB
MAX_RELEASES = 200  # of one prune; all of them stand in its event
MAX_NOTES = 20  # in force at once: all may reach one prompt


def steer_pin(*, run: Run, number: int, quota: int, user: AbstractBaseUser | None, key: str | None = None) -> list[Hop]:
    """The next `quota` selections are made at or below the node, once it has a verdict. Older pins come first."""

    def act(desk: Desk) -> Done:
        if number == 0:
            raise ActionRefused("Every selection is below the start already. Pin another node.")
        if not 1 <= quota <= MAX_QUOTA:
            raise ActionRefused(f"A pin asks for 1 to {MAX_QUOTA} selections, not {quota}.")
        desk.open_branch(number)
        return Done({"number": number, "quota": quota})

    return steer(run=run, verb="steer.pin", user=user, key=key, act=act)


def steer_prune(*, run: Run, number: int, user: AbstractBaseUser | None, key: str | None = None) -> list[Hop]:
    """Select nothing at or below the node any more. Steps in flight there end; pins and forced steps there are over."""

    def act(desk: Desk) -> Done | None:
        if number == 0:
            raise ActionRefused("The start cannot be pruned: nothing would be left. Pause or stop the search instead.")
        if number in desk.steering.pruned:
            return None
        below = {branch.number for branch in desk.open_branch(number).down()}
        over = [act.seq for act in desk.steering.acts if act.verb in (PIN, FORCE) and act.node in below]
        if len(over) > MAX_RELEASES:
            raise ActionRefused(f"{len(over)} pins and forced steps lie below node {number}. Undo some of them first.")
        return Done({"number": number, "releases": over})

    return steer(run=run, verb="steer.prune", user=user, key=key, act=act)


def steer_restore(*, run: Run, number: int, user: AbstractBaseUser | None, key: str | None = None) -> list[Hop]:
    """Open a pruned subtree again, except what was pruned within it."""

    def act(desk: Desk) -> Done | None:
        branch = desk.branch(number)
        if number in desk.steering.pruned:
            return Done({"number": number})
        above = next((step.number for step in branch.up() if step.number in desk.steering.pruned), None)
        if above is not None:
            raise ActionRefused(f"Node {number} lies below node {above}, which is pruned: restore that one.")
        return None

    return steer(run=run, verb="steer.restore", user=user, key=key, act=act)


def steer_boost(
    *, run: Run, number: int, boost: float, user: AbstractBaseUser | None, key: str | None = None
) -> list[Hop]:
    """Add `boost` to the node's score wherever a policy compares it; 0 clears. It replaces an earlier boost."""

    def act(desk: Desk) -> Done | None:
        if number == 0:
            raise ActionRefused("The start has no score to raise. Boost another node.")
        if not math.isfinite(boost) or abs(boost) > MAX_BOOST:
            raise ActionRefused(f"A boost is a number from -{MAX_BOOST:g} to {MAX_BOOST:g}; rewards lie from 0 to 1.6.")
        desk.open_branch(number)
        before = desk.steering.boosts.get(number, 0.0)
        return None if before == boost else Done({"number": number, "boost": float(boost)}, before={"boost": before})

    return steer(run=run, verb="steer.boost", user=user, key=key, act=act)


def steer_force(
    *, run: Run, kind: str, user: AbstractBaseUser | None, number: int | None = None, key: str | None = None
) -> list[Hop]:
    """Make the next step one of `kind`, once; with `number` from that node. It waits until such a step is possible."""

    def act(desk: Desk) -> Done:
        if kind not in (LARGE, SMALL):
            raise ActionRefused(f"A step is {LARGE} or {SMALL}, not {kind!r}.")
        if number is not None:
            branch = desk.open_branch(number)
            if kind == SMALL and (branch.is_root or (branch.told and not branch.written)):
                raise ActionRefused(f"Node {number} has no kernel that a small step could improve. Force a large one.")
        where = {} if number is None else {"number": number}
        return Done({**where, "kind": kind})

    return steer(run=run, verb="steer.force", user=user, key=key, act=act)


def steer_note(*, run: Run, number: int, text: str, user: AbstractBaseUser | None, key: str | None = None) -> list[Hop]:
    """Put a line into the prompts of all steps reserved from now on whose parent is the node or lies below it."""

    def act(desk: Desk) -> Done | None:
        note = " ".join(storable_text(text).split())
        if not note:
            raise ActionRefused("The note is empty. Write what the proposer should know or try.")
        if len(note) > NOTE_CHARS or len(json.dumps(note)) > NOTE_BYTES:
            raise ActionRefused(
                f"The note has {len(note)} characters; {NOTE_CHARS} fit, fewer where they are not plain letters."
            )
        desk.branch(number)
        if note in notes_at(desk.run, desk.steering, number):
            return None
        if len(desk.steering.notes) >= MAX_NOTES:
            raise ActionRefused(f"{MAX_NOTES} notes are in force. Undo one of them first.")
        return Done({"number": number, "text": note})

    return steer(run=run, verb="steer.note", user=user, key=key, act=act)
