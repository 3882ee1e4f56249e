"""Near-equal kernels are found among thousands by small sketches; the share that is told is exact."""

from __future__ import annotations

from random import Random

import pytest

from search.engine.sketches import NEAR, jaccard, likely, shingles, sketch
from search.nodes.page import near_of
from tests.counting import calls_of
from tests.faults.quick import source_of
from tests.search.fakes import ScriptedProposer
from tests.search.makers import Worker, make_run
from tests.search.steered import run_branch, steer_inject

LONG = "def kernel():\n" + "\n".join(
    f"    value_{k} = load(pointer + {k} * stride, mask=offset < size_{k % 7})" for k in range(120)
)


def answer(text: str):
    from search.proposers.protocol import Reply

    return lambda task: Reply(source=text)


def test_layout_and_comments_make_no_difference():
    assert shingles("a = b + c * d  # why") == shingles("a=b +\n  c*d")


def test_one_changed_number_in_a_long_kernel_is_near():
    other = LONG.replace("* stride, mask=offset < size_3)", "* stride, mask=offset <= size_3)", 1)
    assert NEAR <= jaccard(shingles(LONG), shingles(other)) < 1
    assert likely(sketch(LONG), [sketch(source_of(4)), sketch(other)]) == [1]


def test_another_kernel_is_not_near():
    assert likely(sketch(LONG), [sketch(source_of(4)), b"", b"short"]) == []
    assert likely(b"", [sketch(LONG)]) == []


@pytest.mark.parametrize("share", [0.955, 0.97, 0.99])
def test_hardly_any_near_kernel_is_missed(share):
    rng, missed = Random(7), 0
    for _ in range(40):
        words = [f"w{rng.randrange(10**9)}" for _ in range(800)]
        other = words[:]
        while jaccard(shingles(" ".join(words)), shingles(" ".join(other))) > share:
            other[rng.randrange(800)] = f"x{rng.randrange(10**9)}"
        if jaccard(shingles(" ".join(words)), shingles(" ".join(other))) >= NEAR:
            missed += not likely(sketch(" ".join(words)), [sketch(" ".join(other))])
    assert missed == 0


def test_ten_thousand_sketches_are_compared_all_at_once():
    others = [Random(k).randbytes(512) for k in range(10_000)]
    mine = sketch(LONG)
    others[7777] = mine
    assert likely(mine, others) == [7777]
    assert calls_of(lambda: likely(mine, others)) < 3 * len(others)


@pytest.mark.django_db
def test_a_node_names_the_first_equal_and_else_the_nearest_earlier_node():
    near = LONG.replace("value_9 ", "value_nine ", 1)
    texts = {1: answer(LONG), 2: answer(source_of(2)), 3: answer(near), 4: answer(LONG + "  # again")}
    run = make_run(steps=4, params={"policy": "independent"})
    Worker(ScriptedProposer(texts)).run(run)
    found = {node.number: near_of(node) for node in run.nodes.exclude(number=0)}
    assert found[1] is None and found[2] is None
    assert (found[3].number, found[3].equal) == (1, False) and 95 <= found[3].percent < 100
    assert (found[4].number, found[4].equal) == (1, True)


@pytest.mark.django_db
def test_a_kernel_by_hand_and_a_branched_one_are_found_near_like_any_other():
    run = make_run(steps=3)
    source = f"{LONG}\nclass ModelNew: ...\n"
    (follow_up,) = steer_inject(run=run, source=source, user=None)
    worker = Worker()
    worker.do(follow_up)
    node = run.nodes.get(number=1)
    new, _ = run_branch(node=node, steps=2, user=None)
    assert bytes(node.sketch) == bytes(new.nodes.get(number=1).sketch) == sketch(source)
