"""Which recent candidates a rule of a scope would have reached: a preview for the person who decides."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.apps import apps

from judge.devices.models import Device
from judge.problems.models import Problem
from memory.rules.families import families_of
from memory.rules.scopes import Scope, Where
from memory.rules.toolchains import triton_on

LAST = 200  # candidates looked at
SHOWN = 3
KNOWN = 4096  # problems whose families a process remembers
_TRACED: dict[tuple[int, str], frozenset[str]] = {}  # a text's graph never changes once it is there


@dataclass(frozen=True)
class Reach:
    """`reached` of the last `of` told candidates lie in the scope; `examples` are (search, number) of the newest."""

    of: int = 0
    reached: int = 0
    examples: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True)
class Recent:
    """The last told candidates and where each was, newest first."""

    nodes: tuple[tuple[int, int, Where], ...] = ()

    def reach(self, scope: Scope) -> Reach:
        found = [(run, number) for run, number, where in self.nodes if scope.holds(where)]
        return Reach(len(self.nodes), len(found), tuple(found[:SHOWN]))


def recent_nodes(last: int = LAST) -> Recent:
    """The last told candidates of all searches. A few queries; graphs are read once a problem."""
    nodes = apps.get_model("search", "Node").objects.filter(state="told").exclude(kind="root").order_by("-pk")
    rows = list(nodes.values_list("run_id", "number", "run__problem_id", "run__device_id")[:last])
    families = families_at({row[2] for row in rows})
    devices = Device.objects.in_bulk({row[3] for row in rows})
    tritons = {pk: triton_on(device) for pk, device in devices.items()}
    places: dict[tuple[int, int], Where] = {}
    for _, _, problem, device in rows:
        if (problem, device) not in places:
            places[problem, device] = Where(families[problem], devices[device].arch, tritons[device])
    return Recent(tuple((run, number, places[problem, device]) for run, number, problem, device in rows))


def families_at(problem_ids: set[int]) -> dict[int, frozenset[str]]:
    """Of each problem the families and operators that prompts know of it, once traced. At most two queries."""
    keys = dict(_problems(problem_ids, "source_hash"))
    untold = {pk for pk, key in keys.items() if (pk, key) not in _TRACED}
    for pk, admission in _problems(untold, "admission") if untold else ():
        reports = [report for report in admission.values() if isinstance(report, dict) and report.get("graph")]
        if reports:
            if len(_TRACED) >= KNOWN:
                _TRACED.clear()
            _TRACED[pk, keys[pk]] = families_of(reports[0]["graph"])
    none: frozenset[str] = frozenset()
    return {pk: _TRACED.get((pk, key), none) for pk, key in keys.items()}


def _problems(problem_ids: set[int], *columns: str) -> list[tuple[Any, ...]]:
    return list(Problem.objects.filter(pk__in=problem_ids).values_list("pk", *columns))
