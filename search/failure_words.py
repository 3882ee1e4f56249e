"""Acts on clusters of failures in people's words: titles and names, no keys and no row ids."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from django.contrib.auth.models import User

from adaexplore_site.models import Action
from memory.models import FailureCluster
from memory.services.clusters import UNDO

GONE = "a cluster that is gone"


@dataclass(frozen=True)
class ActWords:
    """Says acts on the page of cluster `own`, where those on clusters that were merged into it stand, too."""

    own: int
    titles: Mapping[int, str]
    people: Mapping[int, str]
    acts: Mapping[int, Action]  # what was undone

    @classmethod
    def of(cls, rows: Iterable[Action], own: int) -> ActWords:
        """A query each for clusters, people and acts that the rows speak of."""
        rows = list(rows)
        acts = Action.objects.in_bulk([row.after["of"] for row in rows if row.verb == UNDO and "of" in row.after])
        told = [*rows, *acts.values()]
        clusters = {into for row in told if (into := row.after.get("merged_into_id"))}
        clusters |= {int(row.object_id) for row in rows}
        people = {who for row in told if (who := row.after.get("assignee_id"))}
        return cls(
            own=own,
            titles={pk: row.title for pk, row in FailureCluster.objects.in_bulk(clusters).items()},
            people=dict(User.objects.filter(pk__in=people).values_list("pk", "username")),
            acts=acts,
        )

    def said(self, row: Action) -> str:
        """What was done, as the rest of a sentence that begins with who did it."""
        pk = int(row.object_id)
        it = "it" if pk == self.own else f"“{self.titles.get(pk, GONE)}”"
        if row.verb == UNDO:
            first = self.acts.get(row.after.get("of", 0))
            return f"took back: {self._done(first, it)}" if first else "took an act back"
        return self._done(row, it)

    def _done(self, row: Action, it: str) -> str:
        after = row.after
        match row.verb:
            case "cluster.assign":
                who = self.people.get(after.get("assignee_id") or 0, "somebody who has left")
                return f"assigned {it} to {who}" if after.get("assignee_id") else f"took {it} from its assignee"
            case "cluster.mute":
                return f"muted {it} at {_count(after.get('muted_count', 0), 'failure')}"
            case "cluster.unmute":
                return "ended its mute" if it == "it" else f"ended the mute of {it}"
            case "cluster.merge":
                into = self.titles.get(after["merged_into_id"])
                return f"merged {it} into “{into}”" if into else f"merged {it} into {GONE}"
            case "cluster.split":
                return f"split {it} off again"
            case "cluster.propose":
                return f"proposed rule {after.get('rule')} with {_count(after.get('sightings', 0), 'sighting')}"
        return f"changed {it}"


def _count(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"
