"""Named settings, on the form and on the command line."""

from __future__ import annotations

import pytest

from search.algorithm.params import ALIASES, PRESELECTED, PRESETS, SearchParams, preset_get


def test_older_names_still_lead_to_their_settings():
    assert {alias: preset_get(alias).name for alias in ALIASES} == ALIASES
    assert preset_get("paper").params == preset_get("level2").params == SearchParams()
    assert preset_get("level3").params.rho == 0.5


def test_ours_differs_from_the_paper_by_reward_and_backup_only():
    ours, paper = preset_get("default").params.to_json(), SearchParams().to_json()
    assert {name for name in ours if ours[name] != paper[name]} == {"reward", "alpha"}
    assert (preset_get("default").params.backup, preset_get("paper").params.backup) == ("max", "mean")


def test_what_is_preselected_is_what_a_run_gets_that_asks_for_nothing():
    assert PRESETS[PRESELECTED].params == SearchParams()


def test_a_preset_that_is_not_there_is_refused_with_those_that_are():
    with pytest.raises(ValueError, match=r"no preset 'best'.*paper-l2, paper-l3"):
        preset_get("best")
