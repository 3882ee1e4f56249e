"""Rows of rules for tests: failures with nodes behind them, rules with sightings, people."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.contrib.auth.models import Group, User
from django.db.models import OuterRef, Subquery
from django.utils import timezone

from adaexplore_site.core.models import AuditEntry
from memory.failures.models import Failure, FailureCluster
from memory.prompting.scopes import Scope
from memory.rules.models import Rule, RuleVersion, Sighting
from memory.rules.wording import words_hash
from search.records.models import Node, Run
from tests.memory.decisions import rule_create
from tests.search.makers import make_problem, make_run

POOL = 2000  # failures that the rules of `many` share
WORDS = ("reshape", "view", "store", "load", "dot", "sum", "max", "cast", "where", "arange", "exp", "log", "broadcast")


def person(name: str = "rita", *roles: str) -> User:
    """A user with these roles, a reviewer when none is named."""
    user, new = User.objects.get_or_create(username=name)
    if new:
        user.set_password("a-long-enough-one")
        user.save()
    for role in roles or ("reviewer",):
        user.groups.add(Group.objects.get_or_create(name=role)[0])
    return User.objects.get(pk=user.pk)


def failures(
    count: int, *, problem: str = "relu", message: str = "CompilationError: no such name", **more: Any
) -> list[Failure]:
    """Told nodes of one run that failed, with what memory keeps of them."""
    run = make_run(problem=make_problem(problem), steps=5)
    now = timezone.now()
    start = run.nodes.count()
    root = run.nodes.get(number=0)
    Node.objects.bulk_create(
        Node(run=run, number=start + k, parent=root, kind="large", state="told", told_order=start + k, told_at=now)
        for k in range(count)
    )
    nodes = Node.objects.filter(run=run, number__gte=start).order_by("number")
    cluster, _ = FailureCluster.objects.get_or_create(key="abcdef012345", defaults={"stage": "compile", "text": "x"})
    given = {
        "verdict": "compile_failed",
        "stage": "compile",
        "reason": "compile.name",
        "message": message,
        "cost_s": 2.0,
    }
    return Failure.objects.bulk_create(
        Failure(
            node=node, run=run, problem=run.problem, device=run.device, cluster=cluster,
            told_at=now - timedelta(minutes=k), **(given | more),
        )
        for k, node in enumerate(nodes)
    )  # fmt: skip


def rule(
    text: str = "Do not call tl.dot on one element.", seen: int = 0, user: User | None = None, **more: Any
) -> Rule:
    """A proposed rule by a person, with `seen` sightings of its own."""
    act = rule_create(text=text, scope=Scope(), user=user, failures=failures(seen, **more) if seen else ())
    return Rule.objects.get(pk=int(act.object_id))


def card(row: Rule, user: User | None = None, key: str | None = None) -> dict[str, Any]:
    """What a form says of the rule, as it is now."""
    row.refresh_from_db()
    return {"rule_id": row.pk, "revision": row.revision, "user": user, "key": key}


def fresh(row: Rule) -> Rule:
    return Rule.objects.select_related("current").get(pk=row.pk)


def seen_by(row: Rule) -> set[int]:
    """Failures that a rule is linked to."""
    return set(row.sightings.values_list("failure_id", flat=True))


def verbs(row: Rule) -> list[str]:
    """What was done to a rule, oldest first."""
    return list(
        AuditEntry.objects.filter(object_type="rule", object_id=str(row.pk))
        .order_by("pk")
        .values_list("verb", flat=True)
    )


def many(count: int, *, seen: int = 0, state: str = "proposed", problems: int = 5) -> list[int]:
    """`count` rules with `seen` sightings each over `problems` problems, written in a few statements."""
    rules = Rule.objects.bulk_create(Rule(state=state, origin="pattern") for _ in range(count))
    RuleVersion.objects.bulk_create(
        RuleVersion(rule=row, number=1, text=(text := claim(k)), words=words_hash(text)) for k, row in enumerate(rules)
    )
    first = RuleVersion.objects.filter(rule=OuterRef("pk")).values("pk")[:1]
    Rule.objects.filter(current__isnull=True).update(current=Subquery(first))
    if seen:
        each = max(min(count * seen, POOL) // problems, seen)
        pool = [row for k in range(problems) for row in failures(each, problem=f"p{k}")]
        Sighting.objects.bulk_create(
            Sighting(rule=row, failure=pool[(k + i * (len(pool) // seen)) % len(pool)])
            for k, row in enumerate(rules)
            for i in range(seen)
        )
    return [row.pk for row in rules]


def claim(k: int) -> str:
    """The k-th of many different claims."""
    first, second = WORDS[k % len(WORDS)], WORDS[(k // len(WORDS)) % len(WORDS)]
    return (
        f"You cannot call tl.{first} with the result of tl.{second}{k} inside a kernel whose mask has {k} dimensions."
    )


def run_of(row: Failure) -> Run:
    return row.run
