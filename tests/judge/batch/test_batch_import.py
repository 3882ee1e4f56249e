"""Outcome files against the rows: genuine ones are stored once, anything else changes nothing."""

from __future__ import annotations

import json
import os
import stat
import threading
from dataclasses import replace
from io import StringIO

import pytest
from django.core.management import CommandError, call_command
from django.db import connection

from judge.batch.lines import job_line, read_job
from judge.batch.models import BatchJob
from judge.batch.services import OutcomesRefused, Request, jobs_export, outcomes_import, signed_line
from judge.bench.device.nvml import Gpu
from judge.devices.keys import DeviceKey, read_key
from judge.devices.models import Device
from judge.devices.services import device_enroll, enrolled_keys, key_path
from judge.evaluations.models import Evaluation, Measurement
from judge.problems.models import Problem
from judge.tasks import admit_problem
from judge.values import AdmissionReport, Audit, Basis, SpeedCall, Speedup, Subject, Verdict, canonical_hash, text_hash
from tests.judge.batch_makers import KEY, MARK, OTHER, answered, passed
from tests.judge.bench_problems import PROBLEM, SAME, candidate

pytestmark = pytest.mark.django_db
KEYS = {KEY.device: KEY}
FASTER = Speedup(2.0, 1.9, 2.1, 3, Basis.MEASURED, Subject.AUTOTUNE)
SLOWER = candidate("time.sleep(0.01); return self.right(x)")


@pytest.fixture
def lab() -> Device:
    return Device.objects.create(name="lab", kind=Device.Kind.CUDA, title="lab", arch="sm_90", remote=True)


@pytest.fixture
def problem() -> Problem:
    sealed = [{"name": "odd", "constants": {"SIZE": 33}, "derived": False}]
    row = Problem.objects.create(
        slug="norm", title="norm", source=PROBLEM, source_hash=text_hash(PROBLEM), origin="upload"
    )
    row.sealed_sets.create(number=1, cases=sealed)
    return row


def exported(problem: Problem, device: Device, *sources: str, key: DeviceKey = KEY) -> list[bytes]:
    requests = [Request(problem, one) for one in sources]
    return [signed_line(row, key) for row in jobs_export(requests=requests, device=device)]


def taken(*lines: bytes, **options):
    return outcomes_import(data=b"".join(line + b"\n" for line in lines), keys=KEYS, **options)


def state() -> tuple[object, ...]:
    jobs = BatchJob.objects.order_by("pk").values_list("evaluation", "outcome_digest", "unsigned")
    return Evaluation.objects.count(), Measurement.objects.count(), [tuple(map(str, row)) for row in jobs]


def test_a_genuine_file_becomes_evaluations_with_their_samples(problem, lab) -> None:
    lines = exported(problem, lab, SAME, SLOWER)
    done = taken(*(answered(line) for line in lines))
    assert len(done.evaluations) == 2 and not done.known
    row = done.evaluations[0]
    assert (row.verdict, row.device, row.problem, row.speedup, row.basis) == ("pass", lab, problem, 2.0, "measured")
    assert row.audit == Audit.PASSED
    assert row.toolchain == MARK["toolchain"] and row.report["environment"]["batch"]["gpu"]["uuid"] == "GPU-1"
    assert sorted(row.measurements.values_list("subject", "n")) == [("candidate", 3), ("eager", 3)]
    lab.refresh_from_db()
    assert (lab.facts["uuid"], lab.title) == ("GPU-1", "NVIDIA H200")


def test_the_same_file_again_changes_nothing(problem, lab) -> None:
    line = answered(exported(problem, lab, SAME)[0])
    (first,) = taken(line).evaluations
    before = state()
    again = taken(line)
    assert (again.evaluations, again.known) == ((), (first,))
    assert state() == before


def test_a_byte_altered_anywhere_in_the_file_refuses_all_of_it(problem, lab) -> None:
    whole = b"".join(answered(line) + b"\n" for line in exported(problem, lab, SAME, SLOWER))
    before = state()
    for place in [*range(0, len(whole), 97), len(whole) - 1]:
        changed = bytearray(whole)
        changed[place] ^= 1
        with pytest.raises(OutcomesRefused, match="Nothing was imported"):
            outcomes_import(data=bytes(changed), keys=KEYS)
    assert state() == before


def test_an_outcome_cannot_be_replayed_for_another_export(problem, lab) -> None:
    (line,) = exported(problem, lab, SAME)
    old = answered(line)
    taken(old)
    (anew,) = exported(problem, lab, SAME)  # the first one is answered: this is another job
    assert read_job(anew, KEY).nonce != read_job(line, KEY).nonce
    mixed = json.loads(old)
    other = json.loads(anew)
    replayed = json.dumps(mixed | {"id": other["id"], "nonce": other["nonce"]}, sort_keys=True, separators=(",", ":"))
    before = state()
    with pytest.raises(OutcomesRefused, match="signature"):
        taken(replayed.encode())
    with pytest.raises(OutcomesRefused, match="another outcome already"):
        taken(answered(line, passed(9.0)))
    assert state() == before


def test_what_was_never_asked_for_is_refused(problem, lab) -> None:
    (line,) = exported(problem, lab, SAME)
    sent = read_job(line, KEY)
    forged = job_line(sent.job, nonce="another nonce", key=KEY)
    before = state()
    for outcome, said in (
        (answered(forged), "nonce"),
        (answered(line, key=OTHER), "not enrolled"),
        (answered(line, key=DeviceKey("lab", "ef" * 32)), "another key"),
        (answered(line, kind="interpreter"), "judged on 'interpreter'"),
        (answered(line, arch="sm_80"), "judged on 'sm_80'"),
        (answered(line, gpu=None), "which GPU"),
        (answered(line, passed(basis=Basis.MODELLED)), "must be measured"),
        (answered(line)[:-30], "JSON"),
    ):
        with pytest.raises(OutcomesRefused, match=said):
            taken(outcome)
    BatchJob.objects.all().delete()
    with pytest.raises(OutcomesRefused, match="no such job"):
        taken(answered(line))
    assert state()[:2] == before[:2]


def test_an_outcome_for_another_device_or_protocol_is_refused(problem, lab, monkeypatch) -> None:
    other = Device.objects.create(name="other", kind=Device.Kind.CUDA, title="other", arch="sm_90", remote=True)
    (line,) = exported(problem, other, SAME, key=OTHER)
    with pytest.raises(OutcomesRefused, match="the job was for 'other'"):
        outcomes_import(data=answered(line, key=KEY) + b"\n", keys=KEYS)
    monkeypatch.setattr("judge.batch.services.PROTOCOL", "judge/99")
    (mine,) = exported(problem, lab, SAME)
    with pytest.raises(OutcomesRefused, match="export the job again"):
        taken(answered(mine))


def test_one_bad_line_keeps_the_good_ones_out(problem, lab) -> None:
    first, second = exported(problem, lab, SAME, SLOWER)
    before = state()
    with pytest.raises(OutcomesRefused, match="Line 2"):
        taken(answered(first), answered(second, gpu={**MARK["gpu"], "uuid": "GPU-2"}))
    assert state() == before
    lab.refresh_from_db()
    assert lab.facts == {}


def test_a_file_that_is_still_written_says_so(problem, lab) -> None:
    with pytest.raises(OutcomesRefused, match="still being written"):
        outcomes_import(data=answered(exported(problem, lab, SAME)[0]), keys=KEYS)
    with pytest.raises(OutcomesRefused, match="no outcome"):
        outcomes_import(data=b"", keys=KEYS)


def test_an_unsigned_outcome_is_kept_only_on_request_and_never_as_a_best(problem, lab) -> None:
    (line,) = exported(problem, lab, SAME)
    loose = answered(line, replace(passed(), over_others={"autotune": FASTER}), key=None)
    before = state()
    with pytest.raises(OutcomesRefused, match="unsigned"):
        taken(loose)
    assert state() == before
    (row,) = taken(loose, accept_unsigned=True).unsigned
    assert taken(loose, accept_unsigned=True).known == (row,)
    assert (row.verdict, row.speedup, row.basis, row.audit) == (Verdict.PASS, None, "", Audit.NONE)
    assert row.device.kind == Device.Kind.EXTERNAL and row.report["speedup_autotune"] is None
    assert set(row.measurements.values_list("basis", flat=True)) == {"reported"}
    (signed,) = taken(answered(line)).evaluations  # and it stands in the way of no signed one
    assert signed.speedup == 2.0


def test_a_preflight_is_answered_by_a_signed_report_alone(problem, lab) -> None:
    (verdict,) = exported(problem, lab, SAME)
    (asked,) = exported(problem, lab, "")
    report = AdmissionReport("admitted", graph={"nodes": []})
    for line, outcome, key, said in (
        (asked, passed(), KEY, "a preflight was asked for"),
        (verdict, report, KEY, "a verdict was asked for"),
        (asked, report, None, "admits nothing"),
    ):
        with pytest.raises(OutcomesRefused, match=said):
            taken(answered(line, outcome, key=key), accept_unsigned=True)
    problem.refresh_from_db()
    assert problem.admission == {}
    (job,) = taken(answered(asked, report)).preflights
    problem.refresh_from_db()
    assert job.imported_at and problem.report_for("lab")["state"] == "admitted" and problem.state == "admitted"


def test_a_race_with_the_best_that_left_with_the_job_is_stored(problem, lab) -> None:
    request = Request(problem, SAME, beat=1.5, incumbent=SLOWER)
    (row,) = jobs_export(requests=[request], device=lab)
    line = signed_line(row, KEY)
    raced = Speedup(1.2, 1.1, 1.3, 30, Basis.MEASURED, Subject.INCUMBENT, call=SpeedCall.FASTER)
    (row,) = taken(answered(line, replace(passed(), versus_incumbent=raced))).evaluations
    race = row.races.get()
    assert (race.second_hash, race.call) == (canonical_hash(SLOWER), "faster")


def test_what_still_waits_leaves_again_as_the_same_job(problem, lab) -> None:
    (line,) = exported(problem, lab, SAME)
    assert exported(problem, lab, SAME, SLOWER)[0] == line
    assert BatchJob.objects.count() == 2
    problem.sealed_sets.create(number=2, cases=[])
    assert exported(problem, lab, SAME)[0] != line  # another job: it asks something else
    (row,) = taken(answered(line)).evaluations
    assert row.sealed_set.number == 1  # the set that went with the job


def test_no_worker_here_serves_a_remote_device(problem, lab) -> None:
    from judge.devices.benches import bench_for
    from judge.devices.services import judging_devices
    from judge.values import JudgeError

    assert lab not in judging_devices()
    with pytest.raises(JudgeError, match="judge_export_jobs"):
        bench_for(lab)
    admit_problem(problem.pk, lab.pk)  # an old message must not stop a worker


@pytest.mark.django_db(transaction=True)
def test_two_imports_at_once_store_each_outcome_once(problem, lab) -> None:
    data = b"".join(answered(line) + b"\n" for line in exported(problem, lab, SAME, SLOWER))
    start, results, faults = threading.Barrier(2), [], []

    def take() -> None:
        try:
            start.wait(30)
            results.append(outcomes_import(data=data, keys=KEYS))
        except Exception as error:  # noqa: BLE001 - told by the other thread
            faults.append(error)
        finally:
            connection.close()

    threads = [threading.Thread(target=take) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not faults
    assert sorted((len(done.evaluations), len(done.known)) for done in results) == [(0, 2), (2, 0)]
    assert Evaluation.objects.count() == 2


def test_enrolling_makes_a_private_key_and_says_what_to_do_there(settings, tmp_path) -> None:
    settings.DATA_DIR = tmp_path
    out = StringIO()
    call_command("judge_enroll_device", "lab:h200", stdout=out)
    path = key_path("lab:h200")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert read_key(path).secret not in out.getvalue() and "python -m judge.bench --device cuda:0" in out.getvalue()
    assert enrolled_keys()["lab:h200"] == read_key(path)
    device = Device.objects.get(name="lab:h200")
    assert device.remote and device.kind == Device.Kind.CUDA
    with pytest.raises(CommandError, match="Remove the file"):
        call_command("judge_enroll_device", "lab:h200")
    os.chmod(path, 0o644)  # noqa: PTH101
    with pytest.raises(Exception, match="chmod 600"):
        enrolled_keys()


@pytest.mark.parametrize(
    ("name", "options", "said"),
    [
        ("interpreter", {}, "not a valid name"),
        ("../../etc/key", {}, "not a valid name"),
        ("external:x", {}, "not a valid name"),
        ("lab", {"arch": "h100"}, "not an architecture"),
        ("paper", {}, "already exists"),
    ],
)
def test_a_device_that_cannot_be_enrolled_leaves_nothing(settings, tmp_path, name, options, said) -> None:
    settings.DATA_DIR = tmp_path
    Device.objects.create(name="paper", kind=Device.Kind.EXTERNAL, title="x")
    with pytest.raises(CommandError, match=said):
        call_command("judge_enroll_device", name, **options)
    assert not list(tmp_path.rglob("*.key")) and Device.objects.count() == 1


def test_a_device_that_left_this_machine_can_be_enrolled_and_comes_home(settings, tmp_path) -> None:
    from judge.devices.services import devices_sync

    settings.DATA_DIR = tmp_path
    Device.objects.create(name="cuda:5", kind=Device.Kind.CUDA, title="NVIDIA A10G", arch="sm_86")
    device, _ = device_enroll(name="cuda:5", kind=Device.Kind.CUDA, arch="sm_86")
    assert device.remote and device.title == "NVIDIA A10G"
    devices_sync(lister=lambda: [Gpu(n, f"GPU-{n}", "NVIDIA A10G", "sm_86", 23028, "570.12") for n in range(6)])
    device.refresh_from_db()
    assert not device.remote
