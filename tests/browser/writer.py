"""A second process that changes a run's rows as the workers do. One JSON command a line in, one JSON answer a line out.

Started by `live.LiveStack` with the environment of the server, so that rows, hints and pages are the real ones.
"""

from __future__ import annotations

import json
import os
import sys
import time
from typing import Any

import django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "adaexplore_site.settings")
django.setup()

from django.conf import settings  # noqa: E402
from django.contrib.auth.models import Group, User  # noqa: E402
from django.contrib.sessions.models import Session  # noqa: E402
from django.db import transaction  # noqa: E402
from django.test import Client  # noqa: E402
from django.utils import timezone  # noqa: E402

from adaexplore_site.core.models import AuditEntry  # noqa: E402
from judge.values import canonical_hash  # noqa: E402
from memory.failures.models import Failure, FailureCluster  # noqa: E402
from memory.rules.models import Rule  # noqa: E402
from search.live.frames import feed_items  # noqa: E402
from search.proposers import get as get_proposer  # noqa: E402
from search.records.events import NodeWaiting, RunEnded  # noqa: E402
from search.records.log import event_write  # noqa: E402
from search.records.models import Node, Run  # noqa: E402
from tests import page_rows, pages  # noqa: E402
from tests.judge import gpu_rows  # noqa: E402
from tests.load import forest as bulk  # noqa: E402
from tests.memory import failure_rows, rule_rows  # noqa: E402
from tests.search import kernel_rows, live_rows, makers  # noqa: E402


def user(name: str, password: str) -> dict[str, Any]:
    User.objects.create_superuser(name, password=password)
    return {}


def run(steps: int = 50) -> dict[str, Any]:
    return {"run": makers.make_run(steps=steps).pk}


def admission(**entry: Any) -> dict[str, Any]:
    """A problem with this entry for its one device; `started` is now."""
    makers.make_device()
    problem = makers.make_problem("uploaded")
    problem.state = "refused" if entry["state"] == "refused" else "admitted"
    problem.admission = {"interpreter": {"started": timezone.now().isoformat(), "stages": []} | entry}
    problem.save()
    return {"problem": problem.slug}


def nothing_searched() -> dict[str, Any]:
    """A fresh installation, its sample preflighted."""
    Run.objects.all().delete()
    sample = makers.make_problem("bias_gelu_scale")
    sample.origin, sample.admission = "sample", {"interpreter": {**_PASSED, "started": timezone.now().isoformat()}}
    sample.save()
    makers.make_device()
    return {}


_PASSED = {"state": "admitted", "stages": []}


def gpu() -> dict[str, Any]:
    """A GPU with a history; ids of what is worth looking at."""
    return gpu_rows.history()


def kernels() -> dict[str, Any]:
    """Kernels to compare, on two GPUs and the interpreter; their keys."""
    return kernel_rows.gallery()


def ask(steps: int = 5) -> dict[str, Any]:
    """A run whose first two nodes wait for a person's reply."""
    row = makers.make_run(proposer="manual", steps=steps, concurrency=2)
    worker = makers.Worker()
    worker.proposer = get_proposer
    worker.run(row)
    return {"run": row.pk}


def mention(run: int, number: int) -> dict[str, Any]:
    """One more event about a node, so that every page that shows it hears of it."""
    with transaction.atomic():
        event_write(run=Run.objects.get(pk=run), event=NodeWaiting(number=number))
    return {}


def tell(run: int, number: int, speedup: float | None) -> dict[str, Any]:
    """The verdict of a node in flight."""
    live_rows.tell(Run.objects.get(pk=run).nodes.get(number=number), speedup)
    return {}


def grow(run: int, count: int = 1, speedup: float | None = 1.5, parent: int = 0, gap_s: float = 0) -> dict[str, Any]:
    """`count` nodes reserved and told; every fifth is wrong, each one a little faster than the last."""
    row = Run.objects.get(pk=run)
    for k in range(count):
        value = None if speedup is None or k % 5 == 4 else speedup + 0.01 * k
        with transaction.atomic():  # a verdict and the best it makes are one change
            node = live_rows.grow(row, speedup=value, parent=parent, kind="small" if parent else "large")
            _write_source(node)
            if value is not None and k == 0:
                live_rows.new_best(node)
        time.sleep(gap_s)
    return {"head": Run.objects.get(pk=run).event_seq, "nodes": row.nodes.count(), "at": time.time()}


def _write_source(node: Node) -> None:
    """A kernel of its own, so that it can be branched from, and marked without marking that of another search."""
    node.source = f"class ModelNew:\n    place = ({node.run_id}, {node.number})\n"
    node.source_hash = canonical_hash(node.source)
    node.save()
    if node.evaluation is not None:
        node.evaluation.candidate_hash = node.source_hash
        node.evaluation.save()


def failures(count: int = 3) -> dict[str, Any]:
    """Nothing but failures of two causes; the key of the more frequent one."""
    Failure.objects.all().delete()
    FailureCluster.objects.all().delete()
    row = makers.make_run()
    failure_rows.failed(row, failure_rows.UNKNOWN)
    return {"run": row.pk, "key": failure_rows.cluster_of(row, count=count).key}


def reserve(run: int, parent: int = 0) -> dict[str, Any]:
    node = live_rows.reserve(Run.objects.get(pk=run), parent=parent)
    return {"number": node.number, "at": time.time()}


def user_too(name: str) -> dict[str, Any]:
    """One more user, with the password of the first."""
    first = User.objects.order_by("pk")[0]
    User.objects.create(username=name, password=first.password, is_superuser=True)
    return {}


def person(name: str, role: str) -> dict[str, Any]:
    """One more user with one role and the password of the first."""
    row = User.objects.create(username=name, password=User.objects.order_by("pk")[0].password)
    row.groups.add(Group.objects.get_or_create(name=role)[0])
    return {}


def session(name: str) -> dict[str, Any]:
    """The cookie of a new session of this user."""
    client = Client()
    client.force_login(User.objects.get(username=name), backend=pages.BACKEND)
    return {"name": settings.SESSION_COOKIE_NAME, "value": client.cookies[settings.SESSION_COOKIE_NAME].value}


def sign_out(name: str) -> dict[str, Any]:
    """End every session of this user, as an admin would."""
    pk = str(User.objects.get(username=name).pk)
    for session in Session.objects.all():
        if session.get_decoded().get("_auth_user_id") == pk:
            session.delete()
    return {}


def young() -> dict[str, Any]:
    return dict(page_rows.young())


def full() -> dict[str, Any]:
    return dict(page_rows.full())


def rules(count: int, seen: int = 2) -> dict[str, Any]:
    """Nothing but `count` proposed rules with sightings."""
    AuditEntry.objects.filter(object_type__in=("rule", "rules")).delete()
    Rule.objects.update(current=None, merged_into=None, state="proposed")
    Rule.objects.all().delete()
    return {"rules": rule_rows.many(count, seen=seen)}


def rule_states() -> dict[str, Any]:
    """State, revision, text and reason of each rule, by number."""
    rows = Rule.objects.values_list("pk", "state", "revision", "current__text", "reject_reason")
    return {str(row[0]): row[1:] for row in rows}


def forest(nodes: int) -> dict[str, Any]:
    """A large search at once."""
    return {"run": bulk.forest(nodes).pk}


def many_runs(count: int) -> dict[str, Any]:
    bulk.many(count)
    return {}


def truth(run: int) -> dict[str, Any]:
    """What the rows say: nodes by number, how many are told, and the events that are lines of the feed, in order."""
    row = Run.objects.get(pk=run)
    nodes = list(row.nodes.order_by("number").values_list("number", "parent__number", "told_order"))
    numbers, parents, orders = zip(*nodes, strict=True)
    return {
        "numbers": numbers,
        "parents": [-1 if parent is None else parent for parent in parents],
        "orders": orders,
        "told": row.nodes.filter(state="told").exclude(kind="root").count(),
        "lines": [item.seq for item in feed_items(row.events.order_by("seq"))],
    }


def end(run: int) -> dict[str, Any]:
    with transaction.atomic():
        row = Run.objects.select_for_update().get(pk=run)
        row.state, row.ended_at = Run.State.FINISHED, timezone.now()
        row.save()
        event_write(run=row, event=RunEnded(state="finished", reason="", told=0, best=None))
    return {}


COMMANDS = {
    command.__name__: command
    for command in (
        user,
        user_too,
        person,
        session,
        sign_out,
        young,
        full,
        rules,
        rule_states,
        run,
        admission,
        nothing_searched,
        gpu,
        kernels,
        ask,
        mention,
        tell,
        grow,
        failures,
        reserve,
        truth,
        forest,
        many_runs,
        end,
    )
}


def main() -> None:
    for line in sys.stdin:
        name, fields = json.loads(line)
        sys.stdout.write(json.dumps(COMMANDS[name](**fields)) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
