"""Every address of the site with rows behind it, and signed-in clients, for tests that walk all pages."""

from __future__ import annotations

import re
from dataclasses import dataclass

from django.contrib.auth.models import Group, User
from django.test import Client
from django.urls import get_resolver
from django.urls.resolvers import URLPattern, URLResolver
from django.utils import timezone

from adaexplore_site.accounts.models import ApiToken
from adaexplore_site.core.audit import action_on
from adaexplore_site.core.models import Webhook, WebhookDelivery
from adaexplore_site.saved_views.models import SavedView
from memory.adapt.models import AdaptRun, AdaptTask
from memory.failures.services import clusters_of
from memory.patterns.fingerprints import fingerprint
from memory.rules.files import rules_import
from memory.rules.models import Rule
from search.batches.models import Campaign, CampaignEntry
from search.engine.completion import failures_keep
from search.lab.models import LabResult, lab_result_record
from search.lab.results import result_document
from search.ledger.models import ModelPrice
from search.records.models import Run
from tests.search.lab_spaces import explored
from tests.search.live_rows import grow, new_best, reserve
from tests.search.makers import make_problem, make_run

HOSTILE = '"><img src=x onerror=alert(1)>\u202egnp.py'
BACKEND = "django.contrib.auth.backends.ModelBackend"


@dataclass(frozen=True)
class Address:
    """One route: its name and a path that leads somewhere."""

    name: str
    path: str


def client_of(role: str, name: str = "") -> Client:
    """A client signed in as a new user with one role."""
    user = User.objects.create_user(name or f"some-{role}", password="a-long-enough-one")
    user.groups.add(Group.objects.get_or_create(name=role)[0])
    client = Client()
    client.force_login(user, backend=BACKEND)
    return client


def full_run() -> Run:
    """A run with a correct node, a better one, a wrong one and one in flight."""
    run = make_run(steps=10, title=HOSTILE)
    new_best(grow(run, speedup=1.5))
    new_best(grow(run, speedup=3.0, parent=1, kind="small"))
    grow(run, speedup=None)
    run.nodes.exclude(number=0).update(
        source="import torch\nx = '</td><script>alert(1)</script>\u202e'\n", source_hash="h"
    )
    reserve(run, parent=2, kind="small")
    run.refresh_from_db()
    return run


def lab_result() -> LabResult:
    """A small result of the policy laboratory."""
    return lab_result_record(document=result_document(explored(seeds=3, steps=5), seconds=1.0), command=HOSTILE)


def addresses(run: Run) -> list[Address]:
    """All routes of the URL conf, their parameters filled in from `run`."""
    values = {
        "evaluation_id": run.nodes.values_list("evaluation", flat=True).get(number=2),
        "device_id": run.device_id,
        "run_id": run.pk,
        "number": 2,
        "slug": make_problem().slug,
        "uid": "x",
        "token": "y",
        "device": "interpreter",
        "campaign_id": campaign(run),
        "result_id": lab_result().pk,
        "key": _cluster(run),
        "rule_id": _rule(),
        "adapt_id": adapt(run),
        "form": "csv",
        "picture": "best-so-far",
        "tab": "members",
        "action_id": _act(run),
        "price_id": _price(),
        "view_id": _view(),
        "user_id": _stranger().pk,
        "webhook_id": webhook().pk,
        "token_id": api_token(_stranger()).pk,
    }
    found = []
    for route, name in _routes(get_resolver().url_patterns, ""):
        path = re.sub(r"<(?:\w+:)?(\w+)>", lambda hit: str(values[hit[1]]), route)
        found.append(Address(name, f"/{path}"))
    return found


def api_token(user: User) -> ApiToken:
    """A token that somebody else made."""
    values = {"user": user, "name": HOSTILE, "prefix": "ada_abcdef", "scopes": ["read"]}
    return ApiToken.objects.get_or_create(digest="0" * 64, defaults=values)[0]


def webhook() -> Webhook:
    """A webhook with a sending that was answered by something hostile."""
    hook, _ = Webhook.objects.get_or_create(address="https://example.org/hook?token=secret", salt="x", events=["test"])
    values = {"event": "test", "lease_until": timezone.now(), "status": 500, "answer": HOSTILE, "attempts": 1}
    WebhookDelivery.objects.get_or_create(webhook=hook, defaults=values)
    return hook


def _act(run: Run) -> int:
    """An act on the run that can be taken back."""
    return action_on(verb="run.budget", on=("run", run.pk), user=None, key=None, before={}, after={}).pk


def _stranger() -> User:
    return User.objects.get_or_create(username=HOSTILE)[0]


def _view() -> int:
    """A view that a stranger shares."""
    return SavedView.objects.get_or_create(owner=_stranger(), place="run-list", name=HOSTILE, shared=True)[0].pk


def _price() -> int:
    """A price that a person set."""
    usd = {"usd_per_m_in": 1, "usd_per_m_out": 2}
    return ModelPrice.objects.create(model=HOSTILE, source=HOSTILE, valid_from=timezone.now().date(), **usd).pk


def _rule() -> int:
    """A rule that a stranger's file brought."""
    known = Rule.objects.first()
    if known is None:
        rules_import(data=f"Do not trust {HOSTILE}||3\n".encode(), name=HOSTILE, user=None)
        known = Rule.objects.get()
    return known.pk


def campaign(run: Run) -> int:
    """A campaign whose only search is this one."""
    row = Campaign.objects.create(title=HOSTILE, device=run.device, proposer="builtin", steps=10)
    CampaignEntry.objects.create(campaign=row, problem=run.problem, place=1, state="started", run=run)
    return row.pk


def _cluster(run: Run) -> str:
    """The cluster of one of the run's failures; where it has none, one without failures."""
    told = run.nodes.filter(state="told").exclude(kind="root").select_related("evaluation")
    failures_keep(run=run, nodes=list(told), now=timezone.now())
    empty = fingerprint("smoke", "run.exception", "nothing failed")
    clusters_of([empty])
    return str(run.failures.values_list("cluster__key", flat=True).first() or empty.key)


def adapt(run: Run) -> int:
    """An adapt run with this search as its only task."""
    row = AdaptRun.objects.create(title=HOSTILE, device=run.device, proposer="builtin", tasks=2, control_steps=1)
    AdaptTask.objects.create(adapt=row, problem=run.problem, place=1, state="started", run=run)
    AdaptTask.objects.create(adapt=row, place=2, state="refused", reason=HOSTILE)
    return row.pk


def _routes(patterns: list[URLPattern | URLResolver], prefix: str) -> list[tuple[str, str]]:
    found = []
    for entry in patterns:
        route = prefix + str(entry.pattern)
        if isinstance(entry, URLResolver) and entry.namespace == "api":
            continue  # operations, no pages: tests/site/api walks them
        if isinstance(entry, URLResolver):
            found += _routes(entry.url_patterns, route)
        else:
            found.append((route, entry.name or ""))
    return found
