"""A number on a page and its field in the API are the same: every `data-metric` is looked up and compared."""

from __future__ import annotations

import re
from collections import defaultdict
from decimal import Decimal
from html.parser import HTMLParser
from typing import Any

import pytest
from django.test import Client

from search.ledger.models import Spending
from search.records.models import Proposal
from search.runs.services import run_stop
from tests.pages import client_of, full_run
from tests.search.makers import make_run

pytestmark = pytest.mark.django_db
PAGES = {  # page -> metrics that it must name, whatever else it names
    "/": {"searches.best.value", "searches.told", "searches.correct", "searches.failed"},
    "/s/{run}/": {
        "search.best.value", "search.told", "search.steps", "search.correct", "search.failed", "search.elapsed_s",
        "search.proposals.calls", "search.proposals.tokens", "search.proposals.usd",
    },
    "/s/{run}/n/2/": {"node.speedup.value", "node.visits", "node.reward", "node.best_reward"},
    "/kernels/?basis=modelled": {"kernels.speedup.value"},
    "/problems/": {"problems.bests.0.value", "problems.searches", "problems.eager_us.interpreter"},
    "/spend/": {
        "spend.total.usd", "spend.total.calls", "spend.total.reused", "spend.items.usd", "spend.items.best.value",
    },
}  # fmt: skip


class Metrics(HTMLParser):
    """Metric -> (value, row, what stands there for people) as often as a page names it."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.found: dict[str, list[tuple[str, str, float]]] = defaultdict(list)
        self.open: list[tuple[str, str, str]] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if "data-metric" in given and given["data-metric"] != "speedup":
            self.open.append((given["data-metric"], given["data-value"], given.get("data-of", "")))

    def handle_data(self, data: str) -> None:
        number = re.search(r"\d[\d,]*(?:\.\d+)?", data)
        if self.open and number:
            name, value, of = self.open.pop()
            self.found[name].append((value, of, float(number[0].replace(",", ""))))


@pytest.fixture
def run():
    run = full_run()
    node = run.nodes.get(number=1)
    for attempt, price in enumerate(("0.25", None), 2):
        Proposal.objects.create(
            node=node, attempt=attempt, proposer="openai", model="big", tokens_in=7, tokens_out=3, price_usd=price
        )
    Spending.objects.create(
        run=run, day="2026-11-01", model="big", kind="large", calls=2, usd=Decimal("0.25"), unpriced=1
    )
    problem = run.problem
    problem.admission["interpreter"]["eager_us"] = 12.5
    problem.save()
    make_run()
    run_stop(run=run, user=None, drain=False)
    return run


def field(viewer: Client, name: str, of: str, run: int) -> Any:
    """The value of a metric's field; `of` names the row of a list."""
    resource, *path = name.split(".")
    address = {"search": f"searches/{run}", "node": f"searches/{run}/nodes/2", "kernels": "kernels?basis=modelled"}
    found = viewer.get(f"/api/v1/{address.get(resource, resource)}").json()
    if of:
        keys = ("search.node",) if resource == "kernels" else ("id", "slug", "search")
        path = path[1:] if path[0] == "items" else path
        (found,) = (row for row in found["items"] if of in {row_key(row, key) for key in keys})
    for part in path:
        found = found[int(part)] if isinstance(found, list) else found[part]
    return found


def row_key(row: dict[str, Any], key: str) -> str:
    return ".".join(str(row.get(part)) for part in key.split("."))


def test_every_number_with_a_field_in_the_api_is_that_field(run):
    viewer = client_of("viewer")
    for page, wanted in PAGES.items():
        named = Metrics(viewer.get(page.format(run=run.pk)).content.decode()).found
        assert wanted <= named.keys(), (page, wanted - named.keys())
        for name, values in named.items():
            for value, of, shown in values:
                assert str(field(viewer, name, of, run.pk)) == value, (page, name, of)
                assert shown == pytest.approx(float(value), rel=0.05, abs=0.05), (page, name, of)
