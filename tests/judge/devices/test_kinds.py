"""What devices of each kind answer, and that nothing else tells kinds apart."""

import re
from pathlib import Path

import pytest

from adaexplore_site.core.audit import ActionRefused
from judge.devices.models import Device
from judge.values import Basis
from search.fleet.services import device_state_set

ROOT = Path(__file__).parents[3]

pytestmark = pytest.mark.django_db


def row(kind, **fields):
    return Device.objects.create(name=f"a {kind}", kind=kind, title=f"A {kind}", arch="sm_90", **fields)


@pytest.mark.parametrize(
    ("kind", "remote", "answers"),
    [
        ("interpreter", False, {"judges", "served", "takes_searches"}),
        ("cuda", False, {"judges", "served", "takes_searches", "is_gpu", "measures"}),
        ("cuda", True, {"judges", "takes_searches", "is_gpu"}),
        ("compile", False, set()),
        ("external", False, {"imported"}),
    ],
)
def test_each_kind_answers_for_itself_and_queries_agree(kind, remote, answers):
    device = row(kind, remote=remote)
    asked = ("judges", "served", "takes_searches", "is_gpu", "measures", "imported")
    assert {name for name in asked if getattr(device, name)} == answers
    devices = Device.objects
    assert devices.judging().exists() == device.judges
    assert devices.served().exists() == device.served
    assert devices.gpus().exists() == device.is_gpu
    assert devices.with_times().exists() == (device.basis is not None)


@pytest.mark.parametrize("state", ["draining", "quarantined"])
def test_only_an_active_device_takes_searches(state):
    assert not row("cuda", state=state).takes_searches


def test_times_are_measured_modelled_or_reported_by_the_kind():
    assert [row(kind).basis for kind in Device.Kind] == [Basis.MODELLED, Basis.MEASURED, None, Basis.REPORTED]
    assert Device(kind=Device.Kind.EXTERNAL, name="modelled:sm_90").basis is Basis.MODELLED


@pytest.mark.parametrize(
    ("kind", "why"),
    [
        ("compile", "a compile only compiles; nothing is judged there."),
        ("external", "a external only owns imported numbers; nothing is judged there."),
    ],
)
def test_a_device_that_judges_nothing_has_no_state_to_change_and_says_why(kind, why):
    with pytest.raises(ActionRefused) as refused:
        device_state_set(device=row(kind), state=Device.State.DRAINING, user=None)
    assert str(refused.value) == why


def test_nothing_but_the_table_of_kinds_compares_them():
    compares = re.compile(r"(kind|kind__in)\s*(==|!=|=| in | not in )\s*[(\[]?\s*(models\.)?Device\.Kind\.")
    rooms = [path for app in ("adaexplore_site", "judge", "memory", "search") for path in (ROOT / app).rglob("*.py")]
    found = [str(path.relative_to(ROOT)) for path in rooms if compares.search(path.read_text(encoding="utf-8"))]
    assert found == []
