"""Rows behind every page of `page_list`: searches in all states, a GPU's history, rules, failures, an import."""

from __future__ import annotations

from django.contrib.auth.models import User
from django.utils import timezone

from judge.batch.models import BatchJob
from judge.batch.services import jobs_export
from judge.devices.models import Device
from judge.evaluations.models import SanitizerCheck
from judge.problems.life_cycle import problem_archive, problem_delete, version_add
from judge.problems.models import Problem
from judge.values.sanitizer import CheckState, Findings, SanitizerReport, ToolRun
from search.fleet.remote import requests_waiting
from search.interchange.imports import search_import
from search.proposers import get as get_proposer
from search.rechecks.models import Recheck
from search.rechecks.services import recheck_run
from search.records.models import Run
from search.records.queue import FollowUp
from tests import pages
from tests.judge import gpu_rows
from tests.memory import failure_rows, rule_pictures
from tests.search.fakes import FakeBench, passed, wrong
from tests.search.makers import Worker, make_device, make_problem, make_run
from tests.search.recorded import packed, step
from tests.search.steered import recheck_ask

Names = dict[str, int | str]


def young() -> Names:
    """A search that waits for its first proposal, on a site that has nothing else."""
    return {"waiting": make_run(steps=10).pk}


def paused() -> Names:
    """The same, with workers about that would take it up."""
    names = young()
    Run.objects.filter(pk=names["waiting"]).update(state=Run.State.PAUSED)
    return names


def full() -> Names:
    """Everything else; the names are those in the paths of the list."""
    run = pages.full_run()
    pages.webhook()
    pages.api_token(User.objects.get_or_create(username=pages.HOSTILE)[0])
    best = run.nodes.get(number=2)
    assert best.evaluation is not None
    doubted(run)
    names: Names = {
        "run": run.pk,
        "best": best.number,
        "other": 1,
        "problem": run.problem.slug,
        "modelled_evaluation": best.evaluation.pk,
        "campaign": pages.campaign(run),
        "adapt": pages.adapt(run),
        "manual": manual().pk,
    }
    return names | shown() | judged() | reviewed(run) | imported()


def shown() -> Names:
    """A search that a real one does not amount to."""
    return {"slow": slow().pk}


def doubted(run: Run) -> None:
    """A kernel whose verdict was disputed, and came out otherwise."""
    asked = recheck_ask(node=run.nodes.get(number=1), kind=Recheck.Kind.DISPUTE, note=pages.HOSTILE, user=None)
    recheck_run(recheck_id=asked[0].target, bench_for=FakeBench({0: wrong()}))  # type: ignore[arg-type]


def judged() -> Names:
    """A GPU that this machine may not have, preflights in three states, a problem in quarantine, a result of the
    laboratory."""
    return {
        **checked(gpu_rows.history()),
        **elsewhere(),
        "to_open": to_open(),
        "interpreter": make_device().pk,
        "refused": uploaded("refused", message="It returns a dict."),
        "checking": uploaded("running"),
        "stopped": uploaded("stopped", message="Stopped by ada."),
        "quarantined": quarantined(),
        "lab": pages.lab_result().pk,
        **lives(),
    }


def checked(names: Names) -> Names:
    """A kernel that compute-sanitizer found a race in, and one whose check waits."""
    race = Findings(2, {"race": 2}, {"softmax_rows": 2}, (f"Error: Race reported between {pages.HOSTILE}",))
    runs = ToolRun("memcheck", CheckState.CLEAN, 21.4), ToolRun("racecheck", CheckState.ERRORS, 63.0, findings=race)
    report = SanitizerReport("/usr/local/cuda/bin/compute-sanitizer", gpu_rows.LAYERS, runs).to_json()
    done = {"state": "done", "report": report, "ended_at": timezone.now()}
    SanitizerCheck.objects.create(evaluation_id=names["best_evaluation"], **done)
    SanitizerCheck.objects.create(evaluation_id=names["wrong_evaluation"])
    return names


def elsewhere() -> Names:
    """A search whose kernels wait for an enrolled GPU; the last outcome of one was refused."""
    facts = {"kind": "cuda", "arch": "sm_90", "remote": True, "title": "NVIDIA H200"}
    device = Device.objects.create(name="lab-h200", **facts)
    problem = make_problem("elsewhere")
    problem.admission |= {device.name: {"state": "admitted", "case": None, "graph": {"nodes": []}}}
    problem.save()
    run = make_run(device=device, problem=problem, steps=8, concurrency=3, title="Judged elsewhere")
    Worker().work([FollowUp("advance", run.pk)])
    now = timezone.now()
    (job, *_) = jobs_export(requests=requests_waiting(device=device, now=now), device=device)
    why = "its driver is 580.1, that of the class lab-h200 is 570.1: enroll another class"
    BatchJob.objects.filter(pk=job.pk).update(refusal=why)
    Device.objects.filter(pk=device.pk).update(state=Device.State.DRAINING)  # forms offer it no more
    return {"elsewhere": run.pk, "enrolled": device.pk}


def to_open() -> str:
    """A problem whose sealed cases nobody has opened; its slug."""
    row = make_problem("opened-once")
    gpu_rows.sealed(row)
    gpu_rows.sealed(row, case="gpu")
    return row.slug


def lives() -> Names:
    """A problem of two versions, one that is archived, one that was deleted."""
    person, _ = User.objects.get_or_create(username=pages.HOSTILE)
    first = make_problem("versions")
    second = version_add(problem=first, data=gpu_rows.SOURCE.replace("0.7", "0.9").encode(), user=person)
    shelved, gone = make_problem("shelved"), make_problem("deleted")
    problem_archive(problem=shelved, archived=True, user=person)
    problem_delete(problem=gone, user=person)
    return {"old_version": first.slug, "new_version": second.slug, "shelved": shelved.slug}


def reviewed(run: Run | None = None) -> Names:
    """Failures of two causes and rules in every state."""
    run = run or make_run()
    cluster = failure_rows.cluster_of(run, count=3)
    failure_rows.failed(run, failure_rows.UNKNOWN)
    return {"cluster": cluster.key, **rule_pictures.gallery()}


def slow() -> Run:
    """A search that has ended and found nothing faster than PyTorch."""
    bench = FakeBench({0: passed(0.5), 1: passed(0.8), 2: wrong(), 3: passed(0.7)})
    return Worker(bench=bench).run(make_run(problem=make_problem("slow"), steps=4, title="Nothing faster"))


def manual() -> Run:
    """A search whose first two nodes wait for a person's reply."""
    run = make_run(proposer="manual", steps=5, concurrency=2)
    worker = Worker()
    worker.proposer = get_proposer
    return worker.run(run)


def quarantined() -> str:
    """A problem that has broken its bounds again and again; its slug."""
    row = make_problem("endless")
    said = "It breaks its bounds again and again. The last time: Model.forward did not return within 30 s"
    Problem.objects.filter(pk=row.pk).update(quarantined_at=timezone.now(), quarantine_reason=said)
    return row.slug


def uploaded(state: str, **entry: str) -> str:
    """A problem whose preflight on the interpreter is in this state; its slug."""
    problem = make_problem(f"upload-{state}")
    begun = {"started": timezone.now().isoformat(), "stages": []}
    problem.state = Problem.State.REFUSED if state == "refused" else Problem.State.ADMITTED
    problem.admission = {Device.objects.get(name="interpreter").name: {**begun, "state": state, **entry}}
    problem.save()
    return problem.slug


def imported() -> Names:
    """A recorded search of six steps, one of them wrong."""
    steps = [step(1, 0), step(2, 1, kind="small_step", fast_p=2.0, context=[1]), step(3, 0, fast_p=0)]
    steps += [step(k, 2, kind="small_step", fast_p=2.0 + k / 10) for k in (4, 5, 6)]
    run = search_import(data=packed(steps, label=pages.HOSTILE), name="recorded.json")
    return {"imported": run.pk, "imported_node": 2}
