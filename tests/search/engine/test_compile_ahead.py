"""While a kernel waits for its GPU it is compiled beside it; nothing depends on that."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from judge.devices.models import Device
from judge.values import JudgeError, Outcome, Verdict
from search.engine.leases import QUEUED
from search.engine.steps import step_compile, step_reserve
from search.records import queue
from search.records.models import Node, Run
from search.records.queue import FollowUp
from tests.search.makers import make_device, make_run

pytestmark = pytest.mark.django_db

SOURCE = "class ModelNew: ...\n"


class CompileBench:
    """Remembers what it was asked to compile."""

    def __init__(self, error: Exception | None = None) -> None:
        self.compiled: list[str] = []
        self.error = error

    def facts(self) -> dict[str, object]:
        return {"toolchain": "fake 1"}

    def compile(self, job) -> Outcome:
        if self.error:
            raise self.error
        self.compiled.append(job.candidate)
        return Outcome(Verdict.COMPILED_ONLY, stage="compile", reason="compile.only")

    def __call__(self, device) -> CompileBench:
        return self


@pytest.fixture
def gpu():
    return Device.objects.create(name="cuda:0", kind=Device.Kind.CUDA, title="A GPU", arch="sm_90")


def waiting_node(device: Device, **changes: object) -> Node:
    run = make_run()
    [follow_up] = step_reserve(run_id=run.pk)
    Run.objects.filter(pk=run.pk).update(device=device)  # without its preflight
    node = run.nodes.get(pk=follow_up.target)
    given = {"state": Node.State.JUDGING, "lease_owner": QUEUED, "source": SOURCE, **changes}
    Node.objects.filter(pk=node.pk).update(**given)
    return node


def test_a_node_that_waits_for_a_gpu_is_compiled_and_no_row_changes(gpu):
    node, bench = waiting_node(gpu), CompileBench()
    before = Node.objects.filter(pk=node.pk).values().get()
    step_compile(node_id=node.pk, bench_for=bench)
    step_compile(node_id=node.pk, bench_for=bench)
    assert bench.compiled == [SOURCE, SOURCE], "the bench knows what it has"
    assert Node.objects.filter(pk=node.pk).values().get() == before


@pytest.mark.parametrize("change", [{"state": Node.State.PROPOSING}, {"lease_owner": "somebody who judges it"}])
def test_a_node_that_does_not_wait_is_left_alone(gpu, change):
    node, bench = waiting_node(gpu, **change), CompileBench()
    step_compile(node_id=node.pk, bench_for=bench)
    assert bench.compiled == []


def test_the_interpreter_compiles_beside_its_own_work():
    node, bench = waiting_node(make_device()), CompileBench()
    step_compile(node_id=node.pk, bench_for=bench)
    assert bench.compiled == []


def test_a_known_verdict_needs_no_machine_code(gpu, monkeypatch):
    node, bench = waiting_node(gpu), CompileBench()
    monkeypatch.setattr("judge.evaluations.services.evaluation_known", lambda **_: SimpleNamespace())
    step_compile(node_id=node.pk, bench_for=bench)
    assert bench.compiled == []


def test_a_fault_of_the_bench_is_only_logged(gpu, caplog):
    node = waiting_node(gpu)
    step_compile(node_id=node.pk, bench_for=CompileBench(JudgeError("no compiler")))
    assert "no compiler" in caplog.text


def test_the_hop_to_a_gpu_brings_one_to_the_compile_queue_that_expires(monkeypatch):
    sent: list[tuple[str, str, object]] = []

    def send_task(name, *, args, queue, countdown=None, expires=None):
        sent.append((name, queue, expires))

    monkeypatch.setattr(queue, "current_app", SimpleNamespace(send_task=send_task))
    queue.send(
        [FollowUp("judge_node", 1, queue="device.cuda-0"), FollowUp("judge_node", 2, queue="device.interpreter")]
    )
    assert sent == [
        ("search.tasks.compile_node", "compile", queue.COMPILE_S),
        ("search.tasks.judge_node", "device.cuda-0", None),
        ("search.tasks.judge_node", "device.interpreter", None),
    ]
