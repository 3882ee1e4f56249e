"""Rows of earlier versions get the hash of the text that is loaded; what belonged together still does."""

from __future__ import annotations

from importlib import import_module

import pytest
from django.apps import apps

from judge.evaluations.models import Evaluation, Race
from judge.values import canonical_hash
from search.records.models import Node
from tests.search.fakes import ScriptedProposer
from tests.search.makers import Worker, make_run

pytestmark = pytest.mark.django_db

MIGRATIONS = ("judge.migrations.0014_hashes_of_loaded_texts", "search.migrations.0018_hashes_of_loaded_texts")


def test_evaluations_races_and_nodes_follow_their_texts() -> None:
    run = Worker(ScriptedProposer()).run(make_run(steps=3))
    first, second, *_ = Evaluation.objects.order_by("pk")
    race = Race.objects.create(
        problem=run.problem, device=run.device, first_hash="a" * 64, second_hash="b" * 64, evaluation=first,
        ratio=2.0, low=1.5, high=2.5, n=9, basis="measured", call="faster",
    )  # fmt: skip
    Evaluation.objects.filter(pk=first.pk).update(candidate_hash="a" * 64)
    Evaluation.objects.filter(pk=second.pk).update(candidate_hash="b" * 64)
    Node.objects.exclude(source="").update(source_hash="a" * 64)
    for name in MIGRATIONS:
        import_module(name).forwards(apps, None)
        import_module(name).forwards(apps, None)
    race.refresh_from_db()
    assert (race.first_hash, race.second_hash) == (canonical_hash(first.source), canonical_hash(second.source))
    assert {row.candidate_hash == canonical_hash(row.source) for row in Evaluation.objects.all()} == {True}
    nodes = Node.objects.all()
    assert {row.source_hash == (canonical_hash(row.source) if row.source else "") for row in nodes} == {True}
