"""The warning of a reward that can no longer tell kernels apart."""

from __future__ import annotations

import pytest

from search.algorithm.params import SearchParams
from search.live.panels import Saturation, saturation_of
from tests.pages import client_of
from tests.search.live_rows import grow
from tests.search.makers import make_run

pytestmark = pytest.mark.django_db


def grown(*speedups: float | None, **params: object):
    run = make_run(steps=40, params=SearchParams(**params).to_json())
    for speedup in speedups:
        grow(run, speedup=speedup)
    return run


def test_two_of_ten_above_the_cap_are_counted():
    assert saturation_of(grown(*[1.5] * 8, 11.0, 90.0, None)) == Saturation(top=2, correct=10)


@pytest.mark.parametrize(
    "run",
    [
        lambda: grown(),
        lambda: grown(None, None),
        lambda: grown(*[1.5] * 18, 11.0, 90.0),  # a tenth, not more
        lambda: grown(1.5, 90.0, 90.0),  # equally fast: nothing to tell apart
        lambda: grown(1.5, 11.0, 90.0, reward="log"),
        lambda: grown(1.5, 11.0, 90.0, policy="independent"),
    ],
)
def test_nothing_is_said_without_reason(run):
    assert saturation_of(run()) is None


def test_the_cockpit_says_it_in_a_line():
    run = grown(1.5, 11.0, 90.0)
    html = client_of("viewer").get(f"/s/{run.pk}/").content.decode()
    assert "2 of 3 correct kernels (67 %) have the same reward" in html
