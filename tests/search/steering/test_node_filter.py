"""Which nodes a filter means; what it cannot read is refused, so that no act reaches more than was asked for."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adaexplore_site.core.audit import FieldsRefused
from search.algorithm.steering import spans, spans_read
from search.records.facts import node_rows
from search.records.node_styles import LABELS
from search.steering.many import STATES, NodeFilter
from tests.search.live_rows import grow, reserve
from tests.search.makers import make_run


@pytest.fixture
def rows(db):
    """1 fast, 2 wrong below it, 3 slow below that, 4 fast by another way, 5 in flight."""
    run = make_run(steps=9)
    grow(run, speedup=3.0)
    grow(run, speedup=None, parent=1, kind="small")
    grow(run, speedup=0.8, parent=2, kind="small")
    grow(run, speedup=1.2)
    reserve(run, parent=1)
    run.nodes.filter(number=4).update(summary="Tiles of 64 by 64")
    return node_rows(run.pk)


@pytest.mark.parametrize(
    ("chosen", "numbers"),
    [
        (NodeFilter(), [1, 2, 3, 4]),
        (NodeFilter(states=("wrong", "slower")), [2, 3]),
        (NodeFilter(kind="small"), [2, 3]),
        (NodeFilter(under=1.2), [3]),
        (NodeFilter(under=1.21), [3, 4]),
        (NodeFilter(below=1), [2, 3]),
        (NodeFilter(below=77), []),
        (NodeFilter(q="TILES"), [4]),
        (NodeFilter(q="wrong.values"), [2]),
        (NodeFilter(q="3"), [3]),
        (NodeFilter(told=2), [1, 2]),
        (NodeFilter(states=("slower",), below=1, kind="small", under=1), [3]),
    ],
)
def test_all_that_is_set_must_hold(rows, chosen, numbers):
    assert [row.number for row in chosen.matching(rows)] == numbers


def test_states_are_counted_under_the_rest_of_the_filter(rows):
    found = {name: count for name, _, count in NodeFilter(states=("wrong",), below=1).counts(rows)}
    assert found == {"wrong": 1, "slower": 1, "correct": 0, "compile-error": 0, "suspect": 0, "cancelled": 0}
    assert all(LABELS[name] == words for name, words in STATES.items())


@pytest.mark.parametrize(
    ("given", "states", "name"),
    [
        ({"under": "fast"}, [], "under"),
        ({"under": "nan"}, [], "under"),
        ({"under": "-1"}, [], "under"),
        ({"below": "-3"}, [], "below"),
        ({"told": "x"}, [], "told"),
        ({"kind": "huge"}, [], "kind"),
        ({}, ["wrong", "odd"], "state"),
    ],
)
def test_what_cannot_be_read_is_refused(given, states, name):
    with pytest.raises(FieldsRefused) as refused:
        NodeFilter.of(given, states)
    assert set(refused.value.fields) == {name}


def test_a_filter_comes_back_from_its_own_fields_and_words_say_it():
    chosen = NodeFilter(states=("wrong", "slower"), kind="small", under=1.5, below=4, q="a b\x00")
    fields = dict(chosen.fields)
    again = NodeFilter.of(fields, [value for name, value in chosen.fields if name == "state"])
    assert again == NodeFilter(states=("wrong", "slower"), kind="small", under=1.5, below=4, q="a b\ufffd")
    assert again.text == "failed or correct, slower, small steps, speedup under 1.5×, below node 4, “a b\ufffd”"
    assert NodeFilter(states=("wrong",)).toggled("wrong") == "" and "state=slower" in chosen.toggled("wrong")


@given(st.sets(st.integers(1, 9999)), st.integers(9, 80))
def test_numbers_in_short_come_back_in_texts_of_the_length_asked_for(numbers, most):
    texts = spans(numbers, most)
    assert [number for text in texts for number in spans_read(text)] == sorted(numbers)
    assert all(len(text) <= most for text in texts)
