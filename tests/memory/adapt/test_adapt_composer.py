"""The built-in composer: deterministic, of known parts, with consistent sizes, never degenerate by its own rules."""

from __future__ import annotations

import ast

import pytest

from judge.sources.checks import check_problem
from memory.adapt.composing import (
    DoesNotFit,
    NothingComposed,
    Poor,
    catalogue_of,
    check_whole,
    compose,
    drawn,
    linked,
    names_called,
    rank_of,
    rng_of,
)
from tests.memory.adapt_makers import DOCUMENT, small_catalogue, some_seeds

CATALOGUE, SEEDS = small_catalogue(), some_seeds()


def composed(place: int, seed: int = 1):
    return compose(seed=seed, place=place, catalogue=CATALOGUE, seeds=SEEDS)


def named(*names: str):
    return [next(one for one in CATALOGUE.operators if one.name == name) for name in names]


def test_the_same_seed_and_place_give_the_same_task():
    assert [composed(place) for place in range(1, 9)] == [composed(place) for place in range(1, 9)]
    assert composed(1).source != composed(2).source != composed(1, seed=2).source


def test_the_order_in_which_seeds_and_operators_are_given_does_not_matter():
    turned = catalogue_of(DOCUMENT | {"operators": DOCUMENT["operators"][::-1]})
    assert compose(seed=1, place=3, catalogue=turned, seeds=SEEDS[::-1]) == composed(3)


@pytest.mark.parametrize("place", range(1, 30))
def test_a_task_is_a_module_the_judge_reads_with_both_cases(place):
    task = composed(place)
    facts = check_problem(task.source.encode())
    assert facts.cases == ("interpreter", "gpu") and facts.title and facts.family
    assert 3 <= len(task.recipe["chain"]) <= 6
    assert len(task.recipe["seeds"]) == len(set(task.recipe["seeds"])) == 3
    assert all(name in task.source for name in task.recipe["chain"])
    ast.parse(task.source)


def test_every_constant_stands_in_every_case():
    for place in range(1, 20):
        module: dict = {}
        exec(composed(place).source.replace("import torch\nfrom torch import nn", "").split("class Model")[0], module)
        text = composed(place).source
        cases = ast.literal_eval(text[text.rindex("return {") + 7 :])
        constants = {name for name in module if name.isupper()}
        assert constants == set(cases["gpu"]) == set(cases["interpreter"])
        assert all(module[name] == cases["interpreter"][name] for name in constants)


def test_sizes_are_followed_through_the_chain():
    links = linked(named("nn.MaxPool1d", "nn.Linear", "torch.amax"), ((16, 32768), (48, 1024)), rng_of(1, 1))
    assert links[0].out == ((16, 32768), (24, 512))
    assert links[1].given[1] == (24, 512) and links[2].out == ((16, 32768),)
    with pytest.raises(DoesNotFit):
        linked(named("torch.amax", "nn.Linear"), ((16, 4096), (48, 1024)), rng_of(1, 1))


@pytest.mark.parametrize(
    ("chain", "why"),
    [
        (("torch.abs", "nn.ReLU"), "change nothing"),
        (("nn.GELU", "nn.ReLU"), "two of one kind"),
        (("nn.LayerNorm", "torch.sum"), "known before"),
        (("nn.LayerNorm", "nn.MaxPool1d"), "averaged away"),
        (("nn.GELU", "torch.exp"), "beyond all bounds"),
        (("torch.exp", "nn.GELU"), "beyond all bounds"),
    ],
)
def test_neighbours_that_leave_nothing_to_compute_are_not_composed(chain, why):
    with pytest.raises(Poor, match=why):
        linked(named(*chain), ((16, 32768), (48, 1024)), rng_of(1, 1))


def test_sets_of_operators_that_no_order_helps_are_refused():
    for names in (("nn.GELU", "torch.abs", "torch.mul"), ("nn.Linear", "torch.amax", "torch.sum")):
        with pytest.raises(Poor):
            check_whole(named(*names))


def test_what_is_drawn_comes_from_the_seeds_and_the_catalogue():
    given = drawn(seed=3, place=7, catalogue=CATALOGUE, seeds=SEEDS)
    assert len({operator.category for operator in given.operators}) == 3
    assert {one.slug for one in given.seeds} <= {one.slug for one in SEEDS}
    with pytest.raises(NothingComposed, match="there are 2"):
        drawn(seed=3, place=7, catalogue=CATALOGUE, seeds=SEEDS[:2])


def test_a_seed_gives_the_names_it_calls_and_its_rank_whatever_it_holds():
    assert names_called("def f(x):\n    return F.layer_norm(torch.relu(x))") == ["layer_norm", "relu"]
    assert [one.name for one in CATALOGUE.named(["layer_norm", "gelu"])] == ["nn.GELU", "nn.LayerNorm"]
    assert names_called("def broken(") == [] and rank_of("][") == 2
    assert rank_of("torch.randn(1, 2, 3, 4)") == 4 and rank_of("torch.randn((1, 2, 3))") == 3
