"""A snapshot in short: small enough for ten thousand nodes, and nothing of it is lost."""

from __future__ import annotations

import gzip
import json
from random import Random

import pytest

from search.live.columns import packed
from search.live.frames import snapshot
from tests.load.forest import forest
from tests.pages import client_of, full_run


def test_ten_thousand_nodes_of_chance_take_less_than_110_kb():
    dice, count = Random(1), 10_000
    born = [round(3.0 * k + dice.random(), 1) for k in range(count)]
    x = [float(f"{dice.lognormvariate(0.3, 0.4):.7g}") for _ in range(count)]
    columns = {
        "n": list(range(count)),
        "p": [-1, *(dice.randrange(max(0, k - 300), k) for k in range(1, count))],
        "o": list(range(count)),
        "b": born,
        "t": [round(b + dice.uniform(1, 4), 1) for b in born],
        "x": x,
        "lo": [value * (1 - abs(dice.gauss(0.02, 0.01))) for value in x],
        "hi": [value * (1 + abs(dice.gauss(0.02, 0.01))) for value in x],
        "bs": ["measured"] * count,
        "s": [dice.randrange(8) for _ in range(count)],
        "k": [dice.randrange(1, 3) for _ in range(count)],
    }
    size = len(gzip.compress(json.dumps(packed(columns), separators=(",", ":")).encode(), 6))
    assert size < 110_000, size


def test_growing_numbers_are_steps_and_unknown_ones_stay_unknown():
    columns = {
        "n": [0, 1, 2], "p": [-1, 0, 1], "o": [0, None, 1], "b": [0.0, 1.5, 1.7], "t": [0.0, None, 4.2],
        "x": [None, None, 2.0], "lo": [None, None, 1.9], "hi": [None, None, 2.1], "bs": ["", "", "measured"],
    }  # fmt: skip
    short = packed(columns)
    assert short["n"] == [0, 1, 1] and short["o"] == [0, None, 1] and short["p"] == [1, 1, 1]
    assert short["b"] == [0, 15, 2] and short["t"] == [0, None, 25]
    assert short["lo"] == [None, None, -10] and short["hi"] == [None, None, 10]


@pytest.mark.django_db
def test_the_address_gives_either_form_and_tells_their_caches_apart():
    run, viewer = full_run(), client_of("viewer")
    plain, short = (viewer.get(f"/s/{run.pk}/snapshot{query}") for query in ("", "?packed=1"))
    assert "packed" not in plain.json()["nodes"] and short.json()["nodes"]["packed"] == 1
    assert plain["ETag"] != short["ETag"]
    assert short.json()["nodes"] == packed(plain.json()["nodes"])


@pytest.mark.django_db
def test_a_large_search_made_of_rows_is_drawn_from_a_small_snapshot():
    document = snapshot(forest(500))
    plain, short = (
        len(gzip.compress(json.dumps(form).encode())) for form in (document["nodes"], packed(document["nodes"]))
    )
    assert short < plain / 2
