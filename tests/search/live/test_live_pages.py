"""The cockpit as a page without scripts, and the JSON beside it."""

from __future__ import annotations

import re

import pytest
from django.contrib.auth.models import Group
from django.test import Client

from judge.devices.models import Device
from search.algorithm.ranking import Standing
from search.live.chart import chart_of
from search.live.columns import node_columns
from search.live.table_view import outline
from search.records.models import Proposal, Run
from tests.search.live_rows import grow, make_user, new_best
from tests.search.makers import make_run

pytestmark = pytest.mark.django_db


@pytest.fixture
def viewer() -> Client:
    client = Client()
    client.force_login(make_user(), backend="django.contrib.auth.backends.ModelBackend")
    return client


def grown() -> Run:
    run = make_run(steps=10)
    new_best(grow(run, speedup=1.5))
    grow(run, speedup=None)
    new_best(grow(run, speedup=3.0, parent=1, kind="small"))
    run.refresh_from_db()
    return run


def text_of(client: Client, run: Run, query: str = "") -> str:
    answer = client.get(f"/s/{run.pk}/{query}")
    assert answer.status_code == 200
    return answer.content.decode()


def test_the_page_is_whole_without_scripts(viewer):
    html = text_of(viewer, grown())
    assert re.findall(r'<tr role="row" data-number="(\d+)"', html) == ["0", "1", "3", "2"]  # the way to the best first
    assert "3.0×" in html
    assert 'class="line-best"' in html
    assert "is the new best" in html
    assert "wrong.values" in html


def test_the_interpreter_s_numbers_are_called_modelled_wherever_they_stand(viewer):
    html = text_of(viewer, grown())
    assert "not from measurements" in html
    numbers = re.findall(r'<span class="measure".*?</span></span>', html)
    assert len(numbers) >= 4
    assert all("MODELLED" in number for number in numbers)


def test_no_speedup_is_printed_outside_the_one_tag(viewer):
    html = re.sub(r'<span class="measure".*?</span></span>', "", text_of(viewer, grown()))
    html = re.sub(r"<svg.*?</svg>", "", html, flags=re.DOTALL)  # axis labels
    assert re.findall(r"\d×", html) == []


def test_an_unknown_price_is_unknown_and_a_partial_sum_says_so(viewer):
    run = grown()
    node = run.nodes.get(number=1)
    Proposal.objects.create(node=node, attempt=1, proposer="openai", model="m", tokens_in=900, tokens_out=100)
    assert "cost unknown" in text_of(viewer, run)
    Proposal.objects.create(node=node, attempt=2, proposer="openai", model="m", price_usd="0.25")
    html = text_of(viewer, run)
    assert "at least $0.2500 (1 call unpriced)" in html
    assert "at least 1 ktokens" in html.replace("1 k tokens", "1 ktokens")
    assert "$0.00" not in html


def test_a_viewer_sees_no_steering_and_an_operator_does(viewer):
    run = grown()
    assert "/pause" not in text_of(viewer, run)
    operator = make_user("operator")
    operator.groups.add(Group.objects.get(name="operator"))
    viewer.force_login(operator, backend="django.contrib.auth.backends.ModelBackend")
    html = text_of(viewer, run)
    assert f'action="/s/{run.pk}/pause"' in html
    keys = re.findall(r'name="key" value="([^"]+)"', html)
    assert len(set(keys)) == len(keys) == 8


def test_an_empty_search_says_what_it_waits_for(viewer):
    assert "Waiting for the first proposal" in text_of(viewer, make_run())


def test_an_imported_search_is_marked_and_its_numbers_are_not_called_measured(viewer):
    run = grown()
    elsewhere = Device.objects.create(name="external:X", kind="external", title="X")
    Run.objects.filter(pk=run.pk).update(origin="import", device=elsewhere, state="finished")
    html = text_of(viewer, run)
    assert "imported" in html
    assert 'id="controls"' not in html


def test_a_stranger_is_sent_to_sign_in_and_sees_nothing():
    run = grown()
    for path in ("", "snapshot", "events", "replay"):
        answer = Client().get(f"/s/{run.pk}/{path}")
        assert (answer.status_code, answer.url.split("?")[0]) == (302, "/sign-in/")


@pytest.mark.parametrize("path", ["", "snapshot", "events?since=1", "replay"])
def test_an_unknown_run_is_not_found(viewer, path):
    assert viewer.get(f"/s/424242/{path}").status_code == 404


def test_polling_gets_the_same_frame_and_nothing_when_nothing_is_new(viewer):
    run = grown()
    answer = viewer.get(f"/s/{run.pk}/events?since=1")
    body = answer.json()
    assert (body["type"], body["from"], body["to"]) == ("frame", 1, run.event_seq)
    again = viewer.get(f"/s/{run.pk}/events?since=1", headers={"If-None-Match": answer["ETag"]})
    assert (again.status_code, again.content) == (304, b"")
    grow(run)
    assert viewer.get(f"/s/{run.pk}/events?since=1", headers={"If-None-Match": answer["ETag"]}).status_code == 200


@pytest.mark.parametrize("since", ["", "-1", "abc", "9" * 30])
def test_a_senseless_cursor_counts_as_the_beginning(viewer, since):
    run = grown()
    assert viewer.get(f"/s/{run.pk}/events", {"since": since}).json()["from"] == 0


def test_the_snapshot_holds_every_node_and_its_place_in_the_log(viewer):
    run = grown()
    body = viewer.get(f"/s/{run.pk}/snapshot").json()
    assert (body["to"], body["nodes"]["n"], body["nodes"]["p"]) == (run.event_seq, [0, 1, 2, 3], [-1, 0, 0, 1])


def test_a_page_costs_the_same_number_of_queries_however_large_the_tree(viewer, django_assert_max_num_queries):
    small, large = grown(), grown()
    for _ in range(12):
        grow(large)
    with django_assert_max_num_queries(44) as first:
        text_of(viewer, small)
    with django_assert_max_num_queries(len(first.captured_queries)):
        text_of(viewer, large)


def test_rows_are_listed_two_hundred_at_a_time():
    run = make_run(steps=500)
    columns = {name: [] for name in node_columns(run)}
    root = {name: values[0] for name, values in node_columns(run).items()}
    for number in range(450):
        row = root | {"n": number, "p": number - 1 if number else -1, "k": 1 if number else 0, "s": 4 if number else 0}
        for name, values in columns.items():
            values.append(row[name])
    first, total = outline(columns, Standing())
    last, _ = outline(columns, Standing(), first=400)
    assert (total, len(first), [row.number for row in last]) == (450, 200, list(range(400, 450)))
    assert last[-1].level == 450


def test_the_still_chart_rises_only_at_new_bests():
    run = make_run(steps=9)
    for speedup in (1.2, None, 0.7, 2.4, 2.0):
        grow(run, speedup=speedup)
    chart = chart_of(node_columns(run))
    assert (chart.attempts, chart.records) == (5, (1, 4))
    assert chart.step.count("V") == 1
    assert [tick.label for tick in chart.ticks].count("1×") == 1
