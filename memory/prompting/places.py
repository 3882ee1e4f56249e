"""What prompts are written for: the toolchain of a device, the operators of a problem; and what a scope reaches."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from typing import Any

from django.apps import apps

from judge.devices.models import Device, DeviceCheck
from judge.evaluations.models import Evaluation
from judge.problems.models import Problem
from memory.prompting.scopes import Scope, Where, families_of

UNKNOWN = ("", "as published")  # what imported rows hold


def toolchain_now(problem: Problem, device: Device) -> str:
    """The newest line among this problem's preflight there, the device's last evaluation and its last check.

    Empty when nothing was ever judged there. Two queries.
    """
    return _latest([_preflight(problem, device), *_newest(device)])


def place_of(problem: Problem, device: Device, toolchain: str = "") -> Where:
    """What a prompt for this problem is written for. Without a toolchain the newest known there counts."""
    report = problem.report_for(device.name) or {}
    triton = triton_in(toolchain or toolchain_now(problem, device))
    return Where(families=families_of(report.get("graph")), arch=device.arch, triton=triton)


def triton_in(toolchain: str) -> str:
    """ "3.6.0" in a line such as "torch 2.11.0 triton 3.6.0 sm_90"; empty when it is not named."""
    return next((after for word, after in pairwise(toolchain.split()) if word == "triton"), "")


def triton_on(device: Device) -> str:
    """Triton's version in what the device last judged or checked; empty before that. Two queries."""
    return triton_in(_latest(_newest(device)))


def _latest(rows: Iterable[tuple[float, str]]) -> str:
    known = [row for row in rows if row[1] not in UNKNOWN]
    return max(known, key=lambda row: row[0])[1] if known else ""


def _preflight(problem: Problem, device: Device) -> tuple[float, str]:
    environment = (problem.report_for(device.name) or {}).get("environment") or {}
    try:
        at = datetime.fromisoformat(str(environment.get("at"))).timestamp()
    except ValueError:
        at = 0.0
    return at, str(environment.get("toolchain") or "")


def _newest(device: Device) -> Iterable[tuple[float, str]]:
    for rows in (Evaluation.objects.filter(device=device), DeviceCheck.objects.filter(device=device)):
        found = rows.order_by("-id").values_list("created_at", "toolchain").first()
        if found is not None:
            yield found[0].timestamp(), found[1]


LAST = 200  # candidates looked at
SHOWN = 3
KNOWN = 4096  # problems whose families a process remembers
_TRACED: dict[tuple[int, str], frozenset[str]] = {}  # a text's graph never changes once it is there


@dataclass(frozen=True)
class Reach:
    """`reached` of the last `of` completed candidates lie in the scope; `examples`: (search, number) of the newest."""

    of: int = 0
    reached: int = 0
    examples: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True)
class Recent:
    """The last completed candidates and where each was, newest first."""

    nodes: tuple[tuple[int, int, Where], ...] = ()

    def reach(self, scope: Scope) -> Reach:
        found = [(run, number) for run, number, where in self.nodes if scope.holds(where)]
        return Reach(len(self.nodes), len(found), tuple(found[:SHOWN]))


def recent_nodes(last: int = LAST) -> Recent:
    """The last completed candidates of all searches. A few queries; graphs are read once a problem."""
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
    untraced = {pk for pk, key in keys.items() if (pk, key) not in _TRACED}
    for pk, admission in _problems(untraced, "admission") if untraced else ():
        reports = [report for report in admission.values() if isinstance(report, dict) and report.get("graph")]
        if reports:
            if len(_TRACED) >= KNOWN:
                _TRACED.clear()
            _TRACED[pk, keys[pk]] = families_of(reports[0]["graph"])
    none: frozenset[str] = frozenset()
    return {pk: _TRACED.get((pk, key), none) for pk, key in keys.items()}


def _problems(problem_ids: set[int], *columns: str) -> list[tuple[Any, ...]]:
    return list(Problem.objects.filter(pk__in=problem_ids).values_list("pk", *columns))
