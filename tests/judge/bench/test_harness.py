"""What foreign code replaces in the harness around it is named: functions, methods, attributes that hide methods."""

from __future__ import annotations

import sys
import time
from types import ModuleType

import pytest

from judge.bench.subjects import harness as harness_module
from judge.bench.subjects.harness import Harness, survey


class Clerk:
    def stamp(self) -> int:
        return 1


def helper() -> int:
    return 2


@pytest.fixture
def office(monkeypatch):
    """A module that passes for one of ours."""
    module = ModuleType("judge.bench.office")
    module.helper, module.Clerk, module.LIMIT = helper, Clerk, 3
    monkeypatch.setattr(Clerk, "__module__", module.__name__)
    monkeypatch.setitem(sys.modules, module.__name__, module)
    return module


def test_nothing_is_told_while_nothing_is_touched(office):
    office.LIMIT = 4  # a value may change: only code is watched
    assert Harness(Clerk()).touched() == []


def test_a_replaced_function_is_named(office):
    harness = Harness()
    office.helper = lambda: 3
    assert harness.touched() == ["judge.bench.office.helper"]
    del office.helper
    assert harness.touched() == ["judge.bench.office.helper"]


def test_what_was_looked_through_ahead_is_what_it_compares_with(office, monkeypatch):
    monkeypatch.setattr(harness_module, "_surveyed", {})
    survey()
    office.helper = lambda: 3
    assert Harness().touched() == ["judge.bench.office.helper"]


def test_other_code_in_the_same_function_is_named(office, monkeypatch):
    harness = Harness()
    monkeypatch.setattr(helper, "__code__", (lambda: 3).__code__)
    assert harness.touched() == ["judge.bench.office.helper"]


def test_a_replaced_method_is_named(office, monkeypatch):
    harness = Harness()
    monkeypatch.setattr(Clerk, "stamp", lambda self: 0)
    assert harness.touched() == ["judge.bench.office.Clerk.stamp"]


def test_an_attribute_that_hides_a_method_is_named(office):
    clerk = Clerk()
    harness = Harness(clerk)
    clerk.stamp = lambda: 0
    clerk.desk = "by the window"
    assert harness.touched() == ["Clerk.stamp"]


def test_a_clock_of_python_is_watched_too(monkeypatch):
    harness = Harness()
    monkeypatch.setattr(time, "perf_counter_ns", lambda: 0)
    assert "time.perf_counter_ns" in harness.touched()


def test_a_module_imported_later_is_watched_from_then_on(monkeypatch):
    harness = Harness()
    late = ModuleType("judge.bench.late")
    late.helper = helper
    monkeypatch.setitem(sys.modules, late.__name__, late)
    assert harness.touched() == []
    late.helper = lambda: 3
    assert harness.touched() == ["judge.bench.late.helper"]
