"""What people did to a search goes out with it and comes back as history: named, dated, and never done again."""

from __future__ import annotations

import gzip
import json

import pytest
from django.contrib.auth import get_user_model

from adaexplore_site.core.models import AuditEntry
from judge.problems.models import Problem
from judge.values import text_hash
from search.interchange.imports import search_import
from search.interchange.packed import run_packed
from search.interchange.recording import OWN, RecordingRejected, read_recording
from search.live.frames import recent_feed
from search.records.log import steering_of
from search.records.models import Run
from search.records.queue import FollowUp
from search.replay.check import replay_run
from search.steering.activity import activity_of
from tests.search.interchange.test_round_trips import there_and_back
from tests.search.makers import Worker, make_run
from tests.search.recorded import REFERENCE, packed, quick_hashes, step  # noqa: F401
from tests.search.steered import run_branch, steer_boost, steer_note, steer_params, steer_pin, steer_undo

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("quick_hashes")]
ACT = {"verb": "steer.pin", "who": "ada", "at": "2026-01-31T12:00:00+00:00", "told": 1, "before": {}}


def steered_run() -> Run:
    """Six steps; after two of them a boost that was undone, a note and a pin, all by ada."""
    ada = get_user_model().objects.create_user("ada")
    run = make_run(steps=6)
    Problem.objects.update(source=REFERENCE, source_hash=text_hash(REFERENCE))
    worker, follow_ups = Worker(), [FollowUp("advance", run.pk)]
    while run.nodes.filter(told_order__gte=3).count() == 0:
        follow_ups = follow_ups[1:] + worker.do(follow_ups[0])
    steer_boost(run=run, number=1, boost=0.5, user=ada)
    steer_undo(run=run, seq=AuditEntry.objects.get(verb="steer.boost").after["seq"], user=ada)
    steer_note(run=run, number=1, text="try two passes", user=ada)
    steer_pin(run=run, number=1, quota=2, user=ada)
    steer_params(run=run, changes={"w": 0.4}, user=None)
    worker.work(follow_ups)
    run_branch(node=run.nodes.get(number=1), steps=2, user=ada)
    return Run.objects.get(pk=run.pk)


@pytest.mark.parametrize("form", ["zip", "packed"])
def test_acts_come_back_as_history_with_who_when_and_what_was_undone(form):
    run = steered_run()
    before = [row for row in activity_of(run) if row.verb.startswith("steer.")]
    back = there_and_back(run, form)
    rows = [row for row in activity_of(back) if row.imported]
    assert [(row.verb, row.at, row.actor) for row in rows if row.verb.startswith("steer.")] == [
        (row.verb, row.at, row.actor) for row in before
    ]
    assert {row.verb for row in rows if row.standing.why_not == "undone there"} == {"steer.boost"}
    assert next(row.detail for row in rows if row.verb == "steer.note") == "try two passes"
    assert next(row.detail for row in rows if row.verb == "steer.params") == "w 0.3 → 0.4"
    assert next(row.text for row in rows if row.verb == "run.branch") == "was branched into another search"
    assert all(not row.standing.label for row in rows)


def test_history_is_nobody_s_here_and_steers_nothing():
    back = there_and_back(steered_run(), "packed")
    events = back.events.filter(kind="history.act")
    assert events.count() == 7 and not events.exclude(actor=None).exists()
    assert not back.events.filter(kind__startswith="steer.").exists()
    assert set(AuditEntry.objects.filter(object_id=back.pk, object_type="run").values_list("verb", flat=True)) == {
        "run.import"
    }
    assert steering_of(back.pk).actions == () and replay_run(back).first is None
    lines = [item for item in recent_feed(back) if item.detail.startswith("Imported: done")]
    assert len(lines) == 7


def test_history_stands_where_it_was_done_and_goes_on_with_the_next_export():
    once = there_and_back(steered_run(), "zip")
    kinds = list(once.events.filter(kind__in=("node.told", "history.act")).values_list("kind", flat=True))
    history, told = ["history.act"], ["node.told"]
    assert kinds == history + told * 3 + history * 5 + told * 3 + history
    twice = there_and_back(once, "packed")
    shown = [
        [(row.verb, row.at, row.actor, row.text, row.standing) for row in activity_of(run) if row.imported]
        for run in (once, twice)
    ]
    assert len(shown[0]) == 7 and shown[0] == shown[1]


def test_the_page_of_acts_says_that_history_is_imported(client):
    back = there_and_back(steered_run(), "packed")
    client.force_login(get_user_model().objects.create_user("looker"))
    page = client.get(f"/s/{back.pk}/activity/").content.decode()
    assert page.count("imported history, no user of this installation") == 7 and "try two passes" in page


def test_an_export_without_acts_is_taken_as_ever():
    document = json.loads(gzip.decompress(run_packed(steered_run())[1]))
    del document[OWN]["acts"]
    back = search_import(data=json.dumps(document).encode(), name="old.json")
    assert not back.events.filter(kind="history.act").exists()


@pytest.mark.parametrize(
    "act",
    [
        7,
        ACT | {"verb": "<b>"},
        ACT | {"told": -1},
        ACT | {"at": "2026-01-31"},
        ACT | {"after": {"number": 1, "quota": "many"}},
        ACT | {"after": {"params": ["w"]}},
        ACT | {"after": {"text": "x" * 5000}},
        ACT | {"after": {"boost": 10**400}},
        ACT | {"before": {"x": json.loads("[" * 600 + "]" * 600)}},
        ACT | {"at": "0001-01-01T00:00:00+14:00"},
        ACT | {"at": "9999-12-31T23:59:59-12:00"},
    ],
)
def test_acts_that_cannot_be_read_are_refused_in_words(act):
    with pytest.raises(RecordingRejected, match=r'"acts" under .* cannot be read: (what )?act 1 '):
        read_recording(packed([step(1, 0)], **{OWN: {"acts": [act]}}))
