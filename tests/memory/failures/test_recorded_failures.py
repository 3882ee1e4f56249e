"""The failures of the published searches have names, few clusters hold most, and what they teach quotes no accident."""

from __future__ import annotations

import os
import re
from collections import Counter
from io import StringIO
from pathlib import Path

import pytest
from django.core.management import call_command

from judge.values import text_hash
from memory.failures.models import Failure, FailureCluster
from memory.failures.queries import Chosen, cluster_table
from memory.patterns.fingerprints import Fingerprint, fingerprint
from memory.rules.models import Rule
from memory.rules.wording import claim_check, names_in
from search.engine.completion import failures_rebuild
from search.interchange import imports
from search.interchange.recording import Recording, read_recording, verdict_of_step
from search.records.models import Node, Run

FOLDER = Path(os.environ.get("ADAEXPLORE_FIXTURES", "")) / "recorded_searches"
FILES = sorted(FOLDER.glob("*.json.gz")) if os.environ.get("ADAEXPLORE_FIXTURES") else []
pytestmark = pytest.mark.skipif(not FILES, reason="ADAEXPLORE_FIXTURES names no folder with recorded_searches")


@pytest.fixture(scope="module")
def recordings() -> list[Recording]:
    return [read_recording(path.read_bytes()) for path in FILES]


def test_nearly_all_have_a_name_and_five_causes_are_most_of_them(recordings):
    steps = [step for recording in recordings for step in recording.steps if not step.correct]
    causes = Counter[Fingerprint](fingerprint("reported", verdict_of_step(step), step.error) for step in steps)
    assert causes.total() == 259
    assert sum(count for cause, count in causes.items() if cause.pattern) / 259 >= 0.95
    assert sum(count for _, count in causes.most_common(5)) / 259 >= 0.70


@pytest.fixture
def take_in(monkeypatch):
    monkeypatch.setattr(imports, "canonical_hash", text_hash)  # parsing a thousand kernels takes seconds
    return lambda recordings: [imports.recording_import(recording=row, name="recorded") for row in recordings]


def counts() -> Counter:
    return Counter(Failure.objects.values_list("cluster__key", flat=True))


@pytest.mark.django_db
def test_importing_again_in_another_order_or_rebuilding_gives_the_same_clusters(recordings, take_in):
    runs = take_in(recordings[:2])
    first = counts()
    Run.objects.all().delete()
    FailureCluster.objects.all().delete()
    runs = take_in(recordings[1::-1])
    assert counts() == first and sum(first.values()) == Failure.objects.filter(run__in=runs).count() > 80
    Failure.objects.all().delete()
    FailureCluster.objects.all().delete()
    Node.objects.update(fingerprint="")
    assert failures_rebuild().kept == sum(first.values())
    assert counts() == first
    again = failures_rebuild()
    assert (again.kept, again.clusters.moved, again.clusters.emptied, again.relabelled) == (0, 0, 0, 0)
    assert not Node.objects.filter(failure__isnull=False).exclude(fingerprint__in=first).exists()


@pytest.mark.django_db
def test_rules_are_learned_without_a_model_and_quote_no_accident(recordings, take_in):
    runs, out = take_in(recordings), StringIO()
    call_command("learn", "--run", str(runs[0].pk), stdout=out)
    assert not Failure.objects.exclude(run=runs[0]).exclude(lesson="").exists()
    call_command("learn", "--all", stdout=out)
    lines = out.getvalue().splitlines()
    assert re.match(r"\d+ failures distilled: \d+ support a rule, \d+ hold nothing to learn, \d+ cannot", lines[0])
    assert re.match(r" +47 sightings, +5 problems  Do not call a Triton dtype", lines[-35])
    assert not Failure.objects.filter(lesson="").exists()
    rules = list(Rule.objects.select_related("current"))
    assert len(rules) >= 30 and all(rule.sightings.exists() for rule in rules)
    for rule in rules:
        failure = rule.sightings.earliest("pk").failure
        text, source = rule.current.text, failure.node.source
        assert claim_check(text, source=source, message=failure.message) == "", text
        assert not re.search(r"\bline \d|\.py\b|(?:/\w+){2,}|0x[0-9a-f]+", text), text
        own = {name for name in names_in(source) if "_" in name}
        assert not own & set(re.findall(r"\w+", text)), text
    table = cluster_table(Chosen())
    assert (table.total, table.unnamed) == (259, 0)
    assert [row.counted.count for row in table.rows[:3]] == [62, 47, 35]
    assert all(row.counted.priced == 0 for row in table.rows)  # nobody knows what others paid
    assert any(row.rules for row in table.rows)
