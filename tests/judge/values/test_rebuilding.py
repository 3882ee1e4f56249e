"""Frozen values from plain JSON: what a class says of its fields is what comes back."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import pytest

from judge.values import AdmissionReport, Outcome, Policy
from judge.values.rebuilding import rebuilt


class Colour(StrEnum):
    RED = "red"
    BLUE = "blue"


@dataclass(frozen=True)
class Inner:
    colour: Colour
    size: int = 0

    def __post_init__(self) -> None:
        if self.size < 0:
            raise ValueError("sizes are not negative")

    @property
    def area(self) -> int:
        return self.size**2


@dataclass(frozen=True)
class Outer:
    inner: Inner
    first: Inner | None
    several: tuple[Inner | None, ...] = ()
    colours: tuple[Colour, ...] = ()
    rows: tuple[dict[str, Any], ...] = ()
    named: dict[str, Inner] = dataclasses.field(default_factory=dict)


SMALL = Inner(Colour.RED, 1)
WHOLE = Outer(SMALL, None, (SMALL, None), (Colour.BLUE,), ({"a": [1]},), {"small": SMALL})


def test_values_come_back_from_json_as_they_were() -> None:
    plain = json.loads(json.dumps(dataclasses.asdict(WHOLE)))
    found = rebuilt(Outer, plain)
    assert found == WHOLE
    assert (type(found.inner.colour), type(found.colours[0]), type(found.named["small"])) == (Colour, Colour, Inner)
    assert rebuilt(Outer, {"inner": {"colour": "blue"}, "first": {"colour": "red"}}) == Outer(
        Inner(Colour.BLUE), Inner(Colour.RED)
    )


def test_a_property_beside_the_fields_is_passed_over() -> None:
    assert rebuilt(Inner, {"colour": "red", "size": 3, "area": 9}) == Inner(Colour.RED, 3)


@pytest.mark.parametrize(
    ("row", "error"),
    [
        ({"colour": "green"}, ValueError),
        ({"colour": "red", "size": -1}, ValueError),
        ({"colour": "red", "weight": 1}, KeyError),
        ({}, TypeError),
        (7, TypeError),
        ("red", TypeError),
        ("", TypeError),
        ([["colour", "red"]], TypeError),
        (None, TypeError),
    ],
)
def test_what_is_malformed_raises_also_deep_inside(row, error) -> None:
    with pytest.raises(error):
        rebuilt(Inner, row)
    for place in ({"inner": row}, {"several": [row]} if row is not None else {"inner": row}, {"named": {"a": row}}):
        with pytest.raises(error):
            rebuilt(Outer, {"inner": {"colour": "red"}, "first": None, **place})


@pytest.mark.parametrize("data", [None, 7, "", "pass", [], [["verdict", "lost"]]])
@pytest.mark.parametrize("kind", [AdmissionReport, Outcome, Policy])
def test_what_is_no_object_is_no_value(kind, data) -> None:
    with pytest.raises(TypeError):
        kind.from_json(data)


@pytest.mark.parametrize("kernel", [[], "", [["name", "k"]]])
def test_a_row_that_is_no_object_is_malformed(kernel) -> None:
    with pytest.raises(TypeError):
        Outcome.from_json({"verdict": "lost", "stage": "judge", "reason": "judge.failed", "kernels": [kernel]})


@pytest.mark.parametrize("field", ["several", "rows", "named"])
def test_one_value_where_many_belong_is_malformed(field) -> None:
    with pytest.raises(TypeError):
        rebuilt(Outer, {"inner": {"colour": "red"}, "first": None, field: 7})
    with pytest.raises(TypeError):
        rebuilt(Outer, {"inner": {"colour": "red"}, "first": None, "rows": [7]})


def test_stored_reports_of_earlier_versions_lack_fields() -> None:
    assert AdmissionReport.from_json({"state": "admitted", "eager_us": None}) == AdmissionReport("admitted")
    assert Outcome.from_json({"verdict": "lost", "stage": "judge", "reason": "judge.failed"}).cases == ()
