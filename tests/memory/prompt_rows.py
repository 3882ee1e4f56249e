"""Rules and told nodes for tests of rules at work."""

from __future__ import annotations

import hashlib
from typing import Any

from django.utils import timezone

from judge.problems.models import Problem
from judge.values import text_hash
from memory.failures.models import Failure
from memory.failures.services import failures_record
from memory.prompting.choices import MemoryChoice
from memory.rules.models import Rule, RuleVersion, Sighting
from search.records.models import Node, Run
from tests.search.makers import make_device, make_run

AUTO = MemoryChoice(trust="auto")


def make_rule(text: str = "You cannot call tl.math.tanh.", *, support: int = 3, **changes: Any) -> Rule:
    """An approved rule of a known pattern with one version, seen on `support` problems."""
    scope = {f"scope_{name}": changes.pop(name) for name in ("family", "arch", "triton") if name in changes}
    rule = Rule.objects.create(**({"state": "approved", "origin": "pattern"} | changes))
    words = hashlib.sha256(text.encode()).hexdigest()
    rule.current = RuleVersion.objects.create(rule=rule, number=1, text=text, words=words, **scope)
    rule.save(update_fields=["current"])
    if support:
        run = failed_run()
        for place in range(support):
            see(rule, run, place)
    return rule


def failed_run() -> Run:
    """One search whose nodes stand for failures on any problem."""
    return Run.objects.filter(title="failures").first() or make_run(title="failures", steps=500)


def see(rule: Rule, run: Run, place: int, problem: Problem | None = None) -> None:
    """A sighting on the problem `place`."""
    found, _ = Problem.objects.get_or_create(
        source_hash=text_hash(f"seen {place}"),
        defaults={"slug": f"seen-{place}", "title": f"seen {place}", "source": f"# seen {place}", "origin": "upload"},
    )
    number = 1 + run.nodes.count()
    node = Node.objects.create(run=run, number=number, kind="large", parent=run.nodes.get(number=0))
    failure = Failure(
        node_id=node.pk,
        run_id=run.pk,
        problem_id=(problem or found).pk,
        device_id=make_device().pk,
        verdict="crashed",
        stage="load",
        reason="load.error",
        message="AttributeError: no tanh",
        told_at=timezone.now(),
    )
    failures_record(failures=[failure])
    Sighting.objects.create(rule=rule, failure=Failure.objects.get(node=node))
