"""Where a candidate stands in the grid of `map_elites`, read from its source; and that a run uses it."""

from __future__ import annotations

import pytest

from search.algorithm.params import SearchParams
from search.records.facts import UNREADABLE, cell_of, node_rows, tree_of
from search.records.models import Node
from tests.search.fakes import ScriptedProposer
from tests.search.live_rows import grow
from tests.search.makers import Worker, make_run

KERNEL = """
import torch
import triton
import triton.language as tl


@triton.jit
def kernel(x, y, n: tl.constexpr):
    at = tl.arange(0, n)
    {body}


def helper(x):
    return sum(x)


class ModelNew(torch.nn.Module):
    def forward(self, x):
        {launches}
        return x
"""


def source(body: str = "tl.store(y + at, tl.load(x + at))", launches: int = 1) -> str:
    return KERNEL.format(body=body, launches="\n        ".join(["kernel[(1,)](x, x, 8)"] * launches) or "pass")


@pytest.mark.parametrize(
    ("text", "cell"),
    [
        (source(), "1:elementwise"),
        (source("tl.sum(tl.load(x + at), 0)", 2), "2:reduction"),
        (source("tl.dot(x, y) + tl.max(x, 0)", 3), "3-4:dot"),
        (source("tl.atomic_add(y + at, tl.sum(x, 0))", 9), "5+:reduction+atomic"),
        (source("tl.cumsum(x, 0)", 0), "0:scan"),
        ("import torch\n\nclass ModelNew: ...\n", "0:torch"),
        ("def broken(:", UNREADABLE),
        ("", "0:torch"),
        ("(" * 5000, UNREADABLE),
        ("x = '\\d'\n", "0:torch"),
    ],
)
def test_a_source_is_placed_by_its_launches_and_its_pattern(text, cell):
    assert cell_of(text) == cell


@pytest.mark.django_db
def test_a_run_with_map_elites_replays_the_cells_of_its_correct_kernels(django_assert_num_queries):
    run = make_run(params=SearchParams(policy="map_elites").to_json())
    for speedup in (1.5, 2.0, None):
        grow(run, speedup=speedup)
    for node in run.nodes.exclude(number=0):
        Node.objects.filter(pk=node.pk).update(source=source(launches=node.number), source_hash=f"cells-{node.number}")
    rows = node_rows(run.pk)
    params = SearchParams.from_json(run.params)
    with django_assert_num_queries(1):
        trees = [tree_of(rows, params) for _ in range(2)]  # the second knows the sources
    assert [trees[1][number].cell for number in (1, 2, 3)] == ["1:elementwise", "2:elementwise", ""]


@pytest.mark.django_db
@pytest.mark.parametrize("policy", ["map_elites", "chain"])
def test_a_search_runs_to_its_end_with_it(policy):
    params = SearchParams(policy=policy, reward="log").to_json()
    run = Worker(ScriptedProposer()).run(make_run(steps=6, params=params, concurrency=2))
    assert (run.state, run.nodes.filter(state="told").count()) == ("finished", 7)
