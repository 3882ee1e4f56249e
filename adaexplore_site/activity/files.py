"""The audit as a file: a line or an object for each act."""

from __future__ import annotations

import csv
import io
import json
from typing import Any

from adaexplore_site.activity.entries import Described, described
from adaexplore_site.activity.trail import MOST_FILE, Chosen, actor_of, acts_of
from adaexplore_site.core.csv_cells import safe

COLUMNS = ("id", "at", "who", "source", "verb", "what", "kind", "object", "name", "change")


def trail_document(chosen: Chosen) -> dict[str, Any]:
    """`acts`, newest first; `more` is the act to go on below when there are more than one file takes."""
    found = list(acts_of(chosen)[: MOST_FILE + 1])
    actions = found[:MOST_FILE]
    more = actions[-1].pk if len(found) > MOST_FILE else None
    return {"filter": dict(chosen.asked), "acts": [_act(one) for one in described(actions)], "more": more}


def _act(one: Described) -> dict[str, Any]:
    action, subject = one.entry, one.subject
    who, source = actor_of(action)
    return {
        "id": action.pk,
        "at": action.created_at.isoformat(),
        "who": who,
        "source": source,
        "verb": action.verb,
        "what": one.text,
        "kind": subject.kind,
        "object": action.object_id,
        "name": subject.label,
        "change": one.change,
        "before": action.before,
        "after": action.after,
    }


def trail_json(chosen: Chosen) -> bytes:
    """UTF-8, indented."""
    return json.dumps(trail_document(chosen), indent=1, ensure_ascii=False).encode()


def trail_csv(chosen: Chosen) -> bytes:
    """With a header; the full rows before and after are in the JSON alone."""
    out = io.StringIO()
    writer = csv.writer(out)
    writer.writerow(COLUMNS)
    document = trail_document(chosen)
    for act in document["acts"]:
        writer.writerow([safe(act[name]) for name in COLUMNS])
    if document["more"]:
        writer.writerow([f"older actions: repeat the request with before={document['more']}"])
    return out.getvalue().encode()
