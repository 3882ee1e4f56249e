"""The audit as a file: a line or an object for each act."""

from __future__ import annotations

import csv
import io
import json
from typing import Any

from adaexplore_site.models import Action
from search.acts.said import Subjects, change, said
from search.acts.trail import MOST_FILE, Chosen, actor_of, acts_of

COLUMNS = ("id", "at", "who", "source", "verb", "what", "kind", "object", "name", "change")
_FORMULA = ("=", "+", "-", "@", "\t", "\r")  # a spreadsheet would calculate what begins with one of these


def trail_document(chosen: Chosen) -> dict[str, Any]:
    """`acts`, newest first; `more` is the act to go on below when there are more than one file takes."""
    found = list(acts_of(chosen)[: MOST_FILE + 1])
    actions = found[:MOST_FILE]
    subjects = Subjects.of(actions)
    more = actions[-1].pk if len(found) > MOST_FILE else None
    return {"filter": dict(chosen.asked), "acts": [_act(one, subjects) for one in actions], "more": more}


def _act(action: Action, subjects: Subjects) -> dict[str, Any]:
    who, source = actor_of(action)
    subject = subjects.subject(action)
    return {
        "id": action.pk,
        "at": action.created_at.isoformat(),
        "who": who,
        "source": source,
        "verb": action.verb,
        "what": said(action, subjects),
        "kind": subject.kind,
        "object": action.object_id,
        "name": subject.label,
        "change": change(action),
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
        writer.writerow([_cell(act[name]) for name in COLUMNS])
    if document["more"]:
        writer.writerow([f"older acts: ask again with before={document['more']}"])
    return out.getvalue().encode()


def _cell(value: Any) -> Any:
    return f"'{value}" if isinstance(value, str) and value.startswith(_FORMULA) else value
