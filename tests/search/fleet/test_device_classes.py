"""A device class: several GPUs of one model judge for one device, and their numbers meet in races alone."""

from __future__ import annotations

from dataclasses import replace

import pytest
from django.urls import reverse
from django.utils import timezone

from judge.batch.folder import Folder
from judge.batch.services import OutcomesRefused, outcomes_import
from judge.batch.serving import FolderPlace, serve
from judge.devices.keys import read_key
from judge.devices.models import Device, DeviceCheck
from judge.devices.services import EnrolmentRefused, device_enroll, enrolled_keys, key_path
from judge.evaluations.models import Evaluation
from judge.values import Basis, SpeedCall, Speedup, Subject
from search.engine.bars import MOST_RACES
from search.fleet.exchange import folder_exchange
from search.records.facts import standing_of
from search.records.models import Node, Run
from search.records.queue import FollowUp
from tests.judge.batch.test_batch_run import FakeBench
from tests.judge.batch_makers import MARK, passed
from tests.pages import client_of
from tests.search.fleet.test_searches_elsewhere import admitted
from tests.search.makers import Worker, make_run

pytestmark = pytest.mark.django_db
MARKS = {name: MARK | {"gpu": MARK["gpu"] | {"uuid": name}} for name in ("GPU-1", "GPU-2")}


class Gpus:
    """Two GPUs that serve one folder for a class."""

    def __init__(self, root, device: Device) -> None:
        self.root, self.device, self.asked = root, device, []

    def serve(self, on: str, *answers, **mark) -> None:
        """Judge what waits on the GPU `on`, with these outcomes."""
        gpus = self

        class Bench(FakeBench):
            def evaluate(self, job):
                gpus.asked.append(job)
                return super().evaluate(job)

        place = FolderPlace(Folder(self.root), self.device.name)
        key = read_key(key_path(self.device.name))
        serve(
            place,
            bench=Bench(*answers),
            key=key,
            fingerprint=lambda: MARKS[on] | mark,
            say=lambda line: None,
            once=True,
        )

    def exchange(self):
        return folder_exchange(root=self.root, now=timezone.now())


@pytest.fixture
def gpus(settings, tmp_path) -> Gpus:
    settings.DATA_DIR = tmp_path / "data"
    device, _ = device_enroll(name="h200s", kind=Device.Kind.CUDA, arch="sm_90", pooled=True)
    return Gpus(tmp_path / "shared", device)


def raced(speedup: float, call: SpeedCall):
    ratio = Speedup(1.1, 1.05, 1.2, 30, Basis.MEASURED, Subject.INCUMBENT, call=call)
    return replace(passed(speedup), versus_incumbent=ratio)


def two_steps(gpus: Gpus) -> tuple[Run, Worker]:
    """A search with two kernels that wait, neither of which knows a best."""
    run = make_run(device=gpus.device, problem=admitted(gpus.device), steps=4, concurrency=2)
    worker = Worker()
    worker.work([FollowUp("advance", run.pk)])
    gpus.exchange()
    return run, worker


def judge_one_each(gpus: Gpus, first: float, second: float) -> None:
    """The kernels are judged on different GPUs; both pass and are audited."""
    folder = Folder(gpus.root)
    _one, two = folder.waiting()
    line = folder.read(two)
    folder.withdraw(two)
    gpus.serve("GPU-1", passed(first))
    gpus.exchange()
    folder.put_job(two, line)
    gpus.serve("GPU-2", passed(second))


def test_outcomes_of_two_gpus_are_taken_and_each_says_which_it_was(gpus) -> None:
    two_steps(gpus)
    judge_one_each(gpus, 3.0, 2.0)
    done = gpus.exchange()
    assert not done.refused
    assert list(Evaluation.objects.order_by("pk").values_list("gpu", flat=True)) == ["GPU-1", "GPU-2"]
    gpus.device.refresh_from_db()
    page = client_of("viewer").get(reverse("device-detail", args=[gpus.device.pk])).content.decode()
    assert "GPU-1" in page and "GPU-2" in page and "NVIDIA H200" in page


@pytest.mark.parametrize(
    ("mark", "said"),
    [
        ({"toolchain": "torch 2.12 triton 3.7 sm_90"}, "torch, Triton and target"),
        ({"gpu": MARK["gpu"] | {"uuid": "GPU-2", "driver": "580.1"}}, "its driver is 580.1"),
        ({"gpu": MARK["gpu"] | {"uuid": "GPU-2", "title": "NVIDIA H100"}}, "its model is NVIDIA H100"),
    ],
)
def test_a_gpu_of_another_model_driver_or_toolchain_is_no_member(gpus, mark, said) -> None:
    two_steps(gpus)
    folder = Folder(gpus.root)
    _, two = folder.waiting()
    line = folder.read(two)
    folder.withdraw(two)
    gpus.serve("GPU-1", passed())
    gpus.exchange()
    folder.put_job(two, line)
    gpus.serve("GPU-2", passed(), **mark)
    ((_, outcome),) = folder.outcomes()
    with pytest.raises(OutcomesRefused, match=said):
        outcomes_import(data=outcome, keys=enrolled_keys())
    assert Evaluation.objects.count() == 1


def test_a_higher_number_of_another_gpu_is_no_best_before_it_has_raced_the_best(gpus) -> None:
    run, _ = two_steps(gpus)
    judge_one_each(gpus, 2.0, 3.0)
    gpus.exchange()
    first, second = Node.objects.filter(run=run, number__in=(1, 2)).order_by("number")
    assert standing_of(run.pk).best == first.number and second.state == Node.State.JUDGING
    gpus.asked.clear()
    gpus.serve("GPU-2", raced(3.1, SpeedCall.FASTER))
    again = next(job for job in gpus.asked if job.candidate == second.source)
    assert (again.incumbent, again.beat) == (first.source, 2.0)
    gpus.exchange()
    assert standing_of(run.pk).best == second.number


def test_a_kernel_that_loses_its_race_is_completed_and_is_no_best(gpus) -> None:
    run, _ = two_steps(gpus)
    judge_one_each(gpus, 2.0, 3.0)
    gpus.exchange()
    unaudited = replace(raced(3.1, SpeedCall.SAME), audit=type(passed().audit)(""))
    gpus.serve("GPU-1", unaudited)
    gpus.exchange()
    second = Node.objects.get(run=run, number=2)
    assert second.state == Node.State.COMPLETED and standing_of(run.pk).best == 1


def test_a_higher_number_of_the_same_gpu_needs_no_race(gpus) -> None:
    run, _ = two_steps(gpus)
    gpus.serve("GPU-1", passed(2.0), passed(3.0))
    gpus.exchange()
    assert standing_of(run.pk).best == 2


NOISE = {"floor": 0.006, "ratio": 1.0, "low": 0.99, "high": 1.01, "n": 30, "kernel_us": 92.0}


def test_the_noise_floor_is_kept_for_each_gpu_and_a_noisy_one_is_refused(gpus) -> None:
    two_steps(gpus)
    gpus.serve("GPU-1", passed(2.0), passed(3.0), noise=NOISE)
    gpus.exchange()
    (check,) = DeviceCheck.objects.all()
    assert (check.identity, check.noise_floor, check.cause) == ("GPU-1", 0.006, "")
    page = client_of("viewer").get(reverse("device-detail", args=[gpus.device.pk])).content.decode()
    assert "noise floor 0.6" in page


@pytest.mark.parametrize(
    ("noise", "said"), [(NOISE | {"floor": 0.2}, "differs from itself"), ({"floor": 1}, "cannot be")]
)
def test_an_outcome_of_a_noisy_gpu_is_refused(gpus, noise, said) -> None:
    two_steps(gpus)
    gpus.serve("GPU-1", noise=noise)
    done = gpus.exchange()
    assert len(done.refused) == 2 and said in done.refused[0]
    assert not Evaluation.objects.exists() and not DeviceCheck.objects.exists()


def test_one_gpu_with_verdicts_is_not_made_a_class(gpus) -> None:
    two_steps(gpus)
    gpus.serve("GPU-1", passed(2.0), passed(3.0))
    gpus.exchange()
    key_path("h200s").unlink()
    with pytest.raises(EnrolmentRefused, match="another name"):
        device_enroll(name="h200s", kind=Device.Kind.CUDA, arch="sm_90")


def test_a_race_that_never_comes_is_not_asked_for_without_end(gpus) -> None:
    """Its outcomes are passes of another GPU without a race: the kernel is no best, and the search goes on."""
    run, worker = two_steps(gpus)
    judge_one_each(gpus, 2.0, 3.0)
    for number in range(MOST_RACES + 2):
        worker.work(gpus.exchange().follow_ups)
        if Node.objects.get(run=run, number=2).state == Node.State.COMPLETED:
            break
        assert number < MOST_RACES
        gpus.serve("GPU-2", passed(3.0))
    slow = Evaluation.objects.filter(nodes__number=2).get()
    assert slow.doubt == Evaluation.Doubt.FLAKY and "gave no race" in slow.doubt_reason
    assert standing_of(run.pk).best == 1
