"""Every action on an object that allows it: where it is, and what is sent. Made in the database by `READY[name]()`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.apps import apps
from django.contrib.auth.models import User
from django.db import connection
from django.utils import timezone

from adaexplore_site.accounts.models import ApiToken
from adaexplore_site.actions.registry import APPS
from adaexplore_site.core.models import AuditEntry
from adaexplore_site.saved_views.models import SavedView
from judge.evaluations.models import SanitizerCheck
from judge.selftest.models import SelfTest
from memory.adapt.models import AdaptRun
from memory.rules.models import Rule
from search.batches.models import Campaign
from search.interchange.imports import search_import
from search.ledger.models import ModelPrice
from search.proposers import get as get_proposer
from search.rechecks.models import Recheck
from search.records.models import Run
from tests import pages
from tests.judge.gpu_rows import gpu, sealed
from tests.judge.gpu_rows import judged as gpu_judged
from tests.memory import failure_rows, rule_rows
from tests.memory.decisions import rule_edit
from tests.search import kernel_rows, steered
from tests.search.campaign_rows import make_campaign
from tests.search.fleet.test_revoking import on_device
from tests.search.makers import Worker, make_device, make_problem, make_run
from tests.search.recorded import packed, step
from tests.search.steered import steer_prune
from tests.search.steering.test_steering_acts import partly

Asked = tuple[dict[str, object], dict[str, object]]  # where, fields
KERNEL = "class ModelNew:\n    by_hand = True\n"
REPLY = "```python\nimport torch\n\n\nclass ModelNew(torch.nn.Module):\n    pass\n```\n"

# Their forms hold files or a whole page of fields; the suites of their rooms do them.
ELSEWHERE = {
    "run.start", "run.import", "gallery.import", "campaign.start", "adapt.start", "adapt.transfer", "problem.upload",
    "problem.version", "selftest.start", "evaluation.sanitize", "rule.split", "rules.import", "rules.bulk", "rule.undo",
    "cluster.propose", "cluster.undo", "action.undo", "member.invite", "member.link", "token.issue", "webhook.add",
    "webhook.test",
}  # fmt: skip


def searched(state: str = "running", **changes: Any) -> dict[str, object]:
    run = make_run(steps=8)
    partly(run, 2)
    Run.objects.filter(pk=run.pk).update(state=state, **changes)
    return {"run_id": run.pk}


def judged(**changes: Any) -> dict[str, object]:
    run = pages.full_run()
    run.nodes.get(number=2).evaluation.__class__.objects.update(**changes)
    return {"run_id": run.pk, "number": 2}


def many(state: str) -> dict[str, object]:
    row = make_campaign("a")
    Campaign.objects.filter(pk=row.pk).update(state=state)
    return {"campaign_id": row.pk}


def adapting(state: str) -> dict[str, object]:
    pk = pages.adapt(make_run())
    AdaptRun.objects.filter(pk=pk).update(state=state, ended_at=None)
    return {"adapt_id": pk}


def price(withdrawn: bool) -> dict[str, object]:
    when = timezone.now() if withdrawn else None
    usd = {"usd_per_m_in": 1, "usd_per_m_out": 1}
    row = ModelPrice.objects.create(model="mine", valid_from=timezone.now().date(), withdrawn_at=when, **usd)
    return {"price_id": row.pk}


def cluster(**changes: Any) -> dict[str, object]:
    row = failure_rows.cluster_of(make_run())
    row.__class__.objects.filter(pk=row.pk).update(**changes)
    return {"key": row.key}


def merged(merge: bool) -> Asked:
    first = failure_rows.cluster_of(run := make_run())
    other = failure_rows.cluster_of(run, failure_rows.UNKNOWN)
    if merge:
        return {"key": first.key}, {"into": other.key}
    first.__class__.objects.filter(pk=first.pk).update(merged_into=other)
    return {"key": first.key}, {}


def ruled(state: str = "proposed", **changes: Any) -> dict[str, object]:
    row = rule_rows.rule("Do not call tl.dot on one element.", seen=1)
    Rule.objects.filter(pk=row.pk).update(state=state, **changes)
    return {"rule_id": row.pk}


def rolled() -> Asked:
    where = ruled()
    row = Rule.objects.get()
    rule_edit(text="Do not call tl.sum on one element.", **rule_rows.card(row))
    return where, {"number": 1}


def parted(merge: bool) -> Asked:
    where, other = ruled(), rule_rows.rule("Do not call tl.any in a loop.")
    if merge:
        return where, {"into": other.pk}
    Rule.objects.filter(pk=where["rule_id"]).update(state="merged", merged_into=other)
    return where, {}


def view(**changes: Any) -> dict[str, object]:
    return {"view_id": SavedView.objects.create(owner=User.objects.get(), place="run-list", name="old", **changes).pk}


def member(active: bool) -> dict[str, object]:
    return {"user_id": User.objects.create_user("mia", is_active=active).pk}


def token() -> dict[str, object]:
    return {"token_id": pages.api_token(User.objects.get()).pk}


def hook(on: bool) -> dict[str, object]:
    row = pages.webhook()
    row.__class__.objects.update(on=on)
    return {"webhook_id": row.pk}


def device(state: str) -> dict[str, object]:
    row = make_device()
    row.__class__.objects.update(state=state)
    return {"device_id": row.pk}


def troubled(quarantined: bool) -> dict[str, object]:
    row = make_problem()
    row.__class__.objects.update(quarantined_at=timezone.now() if quarantined else None)
    return {"slug": row.slug}


def examined() -> Asked:
    row, name = make_problem(), make_device().name
    row.__class__.objects.update(admission={name: {"state": "running", "started": timezone.now().isoformat()}})
    return {"slug": row.slug}, {"device": name}


def sanitizing() -> Asked:
    row = SanitizerCheck.objects.create(evaluation=gpu_judged(make_problem(), gpu(), "pass"))
    return {"evaluation_id": row.evaluation_id}, {}


def self_testing() -> Asked:
    row = SelfTest.objects.create(device=make_device())
    return {"device": row.device.name}, {"sure": True}


def pruned() -> dict[str, object]:
    where = searched()
    steer_prune(run=Run.objects.get(), number=1, user=None)
    return where


def shelved(when: Any) -> dict[str, object]:
    row = make_problem()
    row.__class__.objects.filter(pk=row.pk).update(archived_at=when)
    return {"slug": row.slug}


def unsealed() -> Asked:
    row = make_problem()
    sealed(row)
    return {"slug": row.slug}, {"sure": True}


NODE = {"number": 1}
# What sets something: a repeat finds it so already.
SETS: dict[str, Callable[[], Asked]] = {
    "run.pause": lambda: (searched(), {}),
    "run.resume": lambda: (searched("paused"), {}),
    "run.stop": lambda: (searched(), {}),
    "run.kill": lambda: (searched(), {}),
    "run.archive": lambda: (searched("stopped", ended_at=timezone.now()), {}),
    "run.unarchive": lambda: (searched("stopped", ended_at=timezone.now(), archived_at=timezone.now()), {}),
    "run.concurrency": lambda: (searched(), {"concurrency": 3}),
    "steer.prune": lambda: (searched(), NODE),
    "steer.restore": lambda: (pruned(), NODE),
    "steer.boost": lambda: (searched(), {**NODE, "boost": "0.5"}),
    "steer.note": lambda: (searched(), {**NODE, "text": "try  two passes"}),
    "steer.params": lambda: (searched(), {"w": "0.7", "was-w": "0.3"}),
    "kernel.quarantine": lambda: (judged(), {"reason": "too good"}),
    "kernel.flaky": lambda: (judged(), {}),
    "kernel.release": lambda: (judged(doubt="flaky"), {}),
    "kernel.retire": lambda: (judged(), {}),
    "kernel.restore": lambda: (judged(retired=True), {}),
    "campaign.pause": lambda: (many("running"), {}),
    "campaign.resume": lambda: (many("paused"), {}),
    "campaign.stop": lambda: (many("running"), {"sure": "1"}),
    "adapt.pause": lambda: (adapting("running"), {}),
    "adapt.resume": lambda: (adapting("paused"), {}),
    "adapt.stop": lambda: (adapting("running"), {"sure": "1"}),
    "problem.archive": lambda: (shelved(None), {}),
    "problem.unarchive": lambda: (shelved(timezone.now()), {}),
    "device.activate": lambda: (device("draining"), {}),
    "device.drain": lambda: (device("active"), {}),
    "device.quarantine": lambda: (device("active"), {}),
    "problem.quarantine": lambda: (troubled(False), {}),
    "problem.release": lambda: (troubled(True), {}),
    "spend.budget": lambda: ({}, {"day_usd": "5", "alert_percent": "80"}),
    "price.set": lambda: ({}, {"model": "mine", "usd_per_m_in": "1.5", "usd_per_m_out": "6", "source": "a page"}),
    "price.withdraw": lambda: (price(False), {}),
    "price.restore": lambda: (price(True), {}),
    "cluster.assign": lambda: (cluster(), {"assignee": "root"}),
    "cluster.mute": lambda: (cluster(), {}),
    "cluster.unmute": lambda: (cluster(muted_at=timezone.now(), muted_count=1), {}),
    "cluster.merge": lambda: merged(True),
    "cluster.split": lambda: merged(False),
    "rule.approve": lambda: (ruled(), {}),
    "rule.reject": lambda: (ruled(), {"reason": "2"}),
    "rule.retire": lambda: (ruled("approved"), {"reason": "2"}),
    "rule.restore": lambda: (ruled("rejected"), {}),
    "rule.edit": lambda: (ruled(), {"text": "Do not call tl.any  on one element."}),
    "rule.scope": lambda: (ruled(), {"arch": "sm_90"}),
    "rule.rollback": rolled,
    "rule.merge": lambda: parted(True),
    "rule.unmerge": lambda: parted(False),
    "view.rename": lambda: (view(), {"name": "new"}),
    "view.delete": lambda: (view(), {}),
    "view.restore": lambda: (view(deleted_at=timezone.now()), {}),
    "member.roles": lambda: (member(True), {"role": ["operator", "reviewer"]}),
    "member.off": lambda: (member(True), {}),
    "member.on": lambda: (member(False), {}),
    "token.revoke": lambda: (token(), {}),
    "webhook.on": lambda: (hook(False), {}),
    "webhook.off": lambda: (hook(True), {}),
}


def whole() -> dict[str, object]:
    run = pages.full_run()
    run.nodes.filter(number=2).update(source=KERNEL)
    return {"run_id": run.pk}


def measured(asked: str = "") -> dict[str, object]:
    """Node 1 of two measured kernels; with `asked` that was done to it."""
    run = kernel_rows.gpu_run()
    for speedup in (2.1, 2.0):
        kernel_rows.kernel(run, speedup)
    if asked:
        steered.acted(asked, run.nodes.get(number=1), {})
    return {"run_id": run.pk, "number": 1}


def raced() -> Asked:
    where = measured()
    return where, {"rival": f"{where['run_id']}.2"}


def cancelled() -> Asked:
    return measured("kernel.verify"), {"recheck": Recheck.objects.get().pk}


def waiting() -> Asked:
    worker, run = Worker(), make_run(proposer="manual", steps=1)
    worker.proposer = get_proposer
    worker.run(run)
    return {"run_id": run.pk, "number": 1}, {"text": REPLY}


def pinned() -> Asked:
    where = whole()
    steered.steer_pin(run=Run.objects.get(), number=1, quota=4)
    return where, {"seq": AuditEntry.objects.get(verb="steer.pin").after["seq"]}


def widened() -> Asked:
    where = whole()
    steered.run_budget_add(run=Run.objects.get(), delta={"steps": 7})
    return where, {"action": AuditEntry.objects.get(verb="run.budget").pk}


def imported() -> Asked:
    return {"run_id": search_import(data=packed([step(1, 0)]), name="one.json").pk}, {}


def held() -> Asked:
    run, node = on_device(Worker())
    return {"run_id": run.pk, "number": node.number}, {"sure": True}


# What adds something, or asks for something, each time: a repeat is a second one. Actions on what is gone are refused.
ADDS: dict[str, Callable[[], Asked]] = {
    "run.remove": imported,
    "run.branch": lambda: ({**whole(), "number": 2}, {"steps": 6}),
    "run.budget": lambda: (whole(), {"steps": 7}),
    "run.budget.undo": widened,
    "steer.pin": lambda: (whole(), {"number": 1, "quota": 4}),
    "steer.force": lambda: (whole(), {"kind": "small", "number": 1}),
    "steer.inject": lambda: (whole(), {"number": 1, "source": KERNEL}),
    "steer.bulk": lambda: (whole(), {"act": "prune", "state": ["wrong"], "expected": 1}),
    "steer.undo": pinned,
    "node.reply": waiting,
    "node.revoke": held,
    "node.stop": held,
    "preflight.stop": examined,
    "selftest.stop": self_testing,
    "evaluation.sanitize.stop": sanitizing,
    "kernel.verify": lambda: (measured(), {}),
    "kernel.dispute": lambda: (measured(), {"reason": "the  tail"}),
    "kernel.race": raced,
    "kernel.recheck.cancel": cancelled,
    "problem.delete": lambda: (shelved(None), {"sure": True}),
    "problem.unseal": unsealed,
    "device.check": lambda: ({"device_id": gpu().pk}, {}),
    "rule.defer": lambda: (ruled(), {}),
    "rule.create": lambda: ({}, {"text": "Do not call tl.any in a loop."}),
    "view.save": lambda: ({}, {"place": "run-list", "name": "mine", "query": "q=relu"}),
    "webhook.remove": lambda: (hook(True), {"sure": True}),
}
READY = SETS | ADDS


def every_row() -> dict[str, list[tuple[object, ...]]]:
    """Everything that an action may change, table by table. It is asked for hundreds of times: without the ORM."""
    models = [model for model in apps.get_models() if model._meta.app_label in APPS and model is not ApiToken]
    rows = {}
    with connection.cursor() as cursor:
        for model in models:
            cursor.execute(f'SELECT * FROM "{model._meta.db_table}" ORDER BY "{model._meta.pk.column}"')
            rows[model.__name__] = cursor.fetchall()
    return rows
