"""The node page and its panel: verdict with reason, numbers with basis, comparison, exchange, reply by hand."""

from __future__ import annotations

import re
from html import unescape

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from judge.evaluations.models import Evaluation, Measurement
from search.records.models import Node, Proposal, Run
from tests.pages import client_of, full_run
from tests.search.live_rows import grow, reserve
from tests.search.makers import make_run

pytestmark = pytest.mark.django_db
HTMX = {"HX-Request": "true"}


@pytest.fixture
def run() -> Run:
    return full_run()


@pytest.fixture
def viewer() -> Client:
    return client_of("viewer")


def text(client: Client, run: Run, number: int, query: str = "", **headers: str) -> str:
    answer = client.get(f"/s/{run.pk}/n/{number}/{query}", headers=headers)
    assert answer.status_code == 200
    return answer.content.decode()


def evaluate(run: Run, number: int, **report: object) -> None:
    Evaluation.objects.filter(nodes__run=run, nodes__number=number).update(report=report)


def test_every_node_renders_in_every_tab_as_page_and_as_panel(run, viewer):
    for number in range(5):
        for tab in ("overview", "source", "diff", "exchange", "log", "nonsense"):
            assert "<html" in text(viewer, run, number, f"?tab={tab}")
            panel = text(viewer, run, number, f"?tab={tab}", **HTMX)
            assert panel.strip().startswith("<article") and "<html" not in panel


def test_the_overview_says_verdict_reason_and_speedup_with_its_basis(run, viewer):
    assert "wrong.values" in text(viewer, run, 3)
    html = text(viewer, run, 2)
    assert "3.0×" in html and "MODELLED" in html and "best so far" in html


def test_cases_kernels_stages_and_times_are_tables(run, viewer):
    cases = [{"case": "plain", "family": "normal", "ok": False, "error": 0.31, "allowed": 1e-4, "detail": "412 differ"}]
    kernels = [{"name": "k_0", "grid": [64, 2], "num_warps": 4, "regs": 38, "spills": 0, "shared_bytes": 2048}]
    stages = [{"name": "load", "state": "failed", "wall_ms": 12.0, "detail": "no ModelNew", "fix": ""}]
    evaluate(run, 2, cases=cases, kernels=kernels, stages=stages)
    times = {"basis": "modelled", "method": "traffic_model", "n": 1, "median_us": 4.5, "low_us": 4.0, "high_us": 5.0}
    Measurement.objects.create(evaluation=run.nodes.get(number=2).evaluation, subject="candidate", **times)
    html = text(viewer, run, 2)
    for shown in ("412 differ", "0.0001", "k_0", "64×2", "2 KiB", ">38<", "no ModelNew", "4.5 µs"):
        assert shown in html, shown


def test_relatives_and_context_are_links(run, viewer):
    Node.objects.filter(run=run, number=2).update(context=[1, 3, 99])
    html = text(viewer, run, 2)
    for number in (0, 1, 3, 4):
        assert f'data-node="{number}"' in html
    assert 'data-node="99"' not in html


def test_the_difference_is_against_parent_best_reference_or_a_number(run, viewer):
    Node.objects.filter(run=run, number=1).update(source="x = 'first'\n")
    assert "parent, node 1" in text(viewer, run, 2, "?tab=diff")
    assert "the reference" in text(viewer, run, 2, "?tab=diff&base=reference")
    assert "the reference" in text(viewer, run, 1, "?tab=diff")  # its parent is the empty root
    assert "best, node 2" in text(viewer, run, 1, "?tab=diff&base=best")
    assert "against node 1" in text(viewer, run, 3, "?tab=diff&base=1")
    assert "the node itself" in text(viewer, run, 2, "?tab=diff&base=2")
    for nonsense in ("999", "-1", "%00", "²", "1.", "999.1"):
        html = text(viewer, run, 2, f"?tab=diff&base={nonsense}")
        assert "lines against" in html and "There is no node" in html and "Shown against" in html


def test_the_difference_reaches_into_other_searches(run, viewer):
    other = make_run()
    grow(other)
    other.nodes.filter(number=1).update(source="x = 'elsewhere'\n")
    html = text(viewer, run, 2, f"?tab=diff&base={other.pk}.1")
    assert f"against node 1 of search {other.pk}" in html and "elsewhere" in html
    assert "against node 1" in text(viewer, run, 2, f"?tab=diff&base={run.pk}.1")


LONG = "".join(f"line_{number} = {number}\n" for number in range(40))


def hrefs(html: str, name: str) -> str:
    """The address of the link with this id."""
    found = re.search(rf'<a id="{name}"[^>]*href="([^"]+)"', html)
    assert found, name
    return unescape(found[1])


def follow(client: Client, html: str, name: str) -> str:
    answer = client.get(hrefs(html, name).split("#")[0])
    assert answer.status_code == 200
    return answer.content.decode()


def test_folds_blanks_and_view_are_links_that_work_without_scripts(run, viewer):
    Node.objects.filter(run=run, number=1).update(source=LONG)
    Node.objects.filter(run=run, number=2).update(source=LONG.replace("= 20", "=  21"))
    html = text(viewer, run, 2, "?tab=diff")
    assert "17 equal lines" in html and "line_3<" not in html
    assert hrefs(html, "diff-fold-1").endswith("#diff-fold-1")
    opened = follow(viewer, html, "diff-fold-1")
    assert 'data-n="5"' in opened and 'data-n="35"' not in opened and "Fold 17 equal lines" in opened
    assert 'data-n="5"' not in follow(viewer, opened, "diff-fold-1")
    assert 'data-n="35"' in follow(viewer, html, "diff-whole")
    assert "is-unified" in follow(viewer, html, "diff-view")
    assert "whitespace ignored" in follow(viewer, html, "diff-space")


def test_how_a_difference_is_shown_is_remembered_and_the_permalink_says_all_of_it(run, viewer):
    Node.objects.filter(run=run, number=1).update(source=LONG)
    text(viewer, run, 2, "?tab=diff&base=best&view=unified&ws=ignore")
    html = text(viewer, run, 1, "?tab=diff")
    assert "is-unified" in html and "whitespace ignored" in html and "best, node 2" in html
    link = hrefs(html, "diff-link")
    assert "base=2&" in link and "view=unified" in link and "ws=ignore" in link  # the best, by its number
    somebody = client_of("viewer", "somebody")
    text(somebody, run, 1, "?tab=diff&base=reference&view=split&ws=show")
    assert "is-unified" in somebody.get(link).content.decode()


def test_long_texts_are_compared_on_demand(run, viewer):
    Node.objects.filter(run=run, number=2).update(source="x = 1\n" * 2_500)
    html = text(viewer, run, 2, "?tab=diff&base=reference")
    assert "Compare them now" in html and "lines against" not in html and "kernel.py" in html
    assert "lines against" in text(viewer, run, 2, "?tab=diff&base=reference&large=1")


def test_prompt_and_reply_are_plain_text_and_unknown_costs_say_so(run, viewer):
    node = run.nodes.get(number=2)
    Proposal.objects.create(
        node=node, attempt=1, proposer="openai", prompt="<b>ask</b>", reply="\x1b[31manswer", latency_ms=5
    )
    html = text(viewer, run, 2, "?tab=exchange")
    assert "&lt;b&gt;ask&lt;/b&gt;" in html and "\\u001b[31manswer" in html
    assert "tokens unknown" in html and "price unknown" in html and "$0" not in html


def test_a_node_in_flight_asks_again_and_a_told_one_does_not(run, viewer):
    assert 'hx-trigger="every 3s"' in text(viewer, run, 4)
    assert "every 3s" not in text(viewer, run, 2)


def test_only_the_node_s_own_page_gets_its_address_changed(run, viewer):
    path = f"/s/{run.pk}/n/2/"
    here = {**HTMX, "HX-Current-URL": f"http://testserver{path}"}
    assert viewer.get(f"{path}?tab=diff", headers=here)["HX-Replace-Url"] == f"{path}?tab=diff"
    for elsewhere in (f"http://testserver/s/{run.pk}/", "http://[x"):
        drawer = {**HTMX, "HX-Current-URL": elsewhere}
        assert "HX-Replace-Url" not in viewer.get(f"{path}?tab=diff", headers=drawer)


def test_a_missing_node_is_not_found(run, viewer):
    assert viewer.get(f"/s/{run.pk}/n/77/").status_code == 404


def waiting_node() -> Node:
    run = make_run(proposer="manual")
    node = reserve(run)
    Node.objects.filter(pk=node.pk).update(lease_owner="person")
    return node


def test_a_waiting_node_has_a_form_for_operators_only(viewer):
    node = waiting_node()
    assert "Send to the judge" in text(client_of("operator"), node.run, node.number)
    html = text(viewer, node.run, node.number)
    assert "Send to the judge" not in html and "Only operators" in html
    assert "every 3s" not in html  # a refresh must not take the typed text away


def test_a_reply_without_code_is_refused_and_stays_in_the_form(monkeypatch):
    node = waiting_node()
    monkeypatch.setattr("search.records.queue.send", lambda follow_ups: pytest.fail("nothing to send"))
    for headers in ({}, HTMX):
        answer = client_of("operator", f"op{len(headers)}").post(
            f"/s/{node.run_id}/n/{node.number}/reply", {"text": "I cannot </textarea>", "key": "a"}, headers=headers
        )
        html = answer.content.decode()
        assert answer.status_code == 409 and "I cannot &lt;/textarea&gt;" in html and 'role="alert"' in html
    assert Node.objects.get(pk=node.pk).state == "proposing"


def test_a_reply_with_a_kernel_goes_to_the_judge(monkeypatch):
    node, sent = waiting_node(), []
    monkeypatch.setattr("search.records.queue.send", sent.extend)
    reply = (
        "```python\nimport torch\nclass ModelNew(torch.nn.Module):\n    def forward(self, x):\n        return x\n```"
    )
    answer = client_of("operator").post(f"/s/{node.run_id}/n/{node.number}/reply", {"text": reply, "key": "b"})
    assert answer.status_code == 302
    assert [(follow_up.task, follow_up.target, follow_up.queue) for follow_up in sent] == [
        ("judge_node", node.pk, "device.interpreter")
    ]
    assert Node.objects.get(pk=node.pk).state == "judging"


def test_a_longer_tree_costs_no_more_queries(run, viewer):
    counts = []
    for more in (0, 8):
        for _ in range(more):
            grow(run, parent=2)
        with CaptureQueriesContext(connection) as queries:
            text(viewer, run, 2)
        counts.append(len(queries))
    assert counts[0] == counts[1]


def test_the_header_leads_to_the_parent_and_to_the_best_child(run, viewer):
    grow(run, parent=1, speedup=1.1)
    html = text(viewer, run, 1)
    assert re.search(r'data-best-child><a [^>]*data-node="2"', html)  # on the way to the best
    assert "data-best-child" not in text(viewer, run, 4)
    assert re.search(r'data-parent><a [^>]*data-node="1"', text(viewer, run, 2))


def test_the_overview_says_calls_cost_and_what_the_judge_noticed(run, viewer):
    Run.objects.filter(pk=run.pk).update(proposer="openai")
    node = run.nodes.get(number=2)
    Proposal.objects.create(node=node, attempt=1, proposer="openai", tokens_in=900, tokens_out=100)
    Proposal.objects.create(node=node, attempt=2, proposer="openai")
    data = {"kernels": [["mine", 3.0, True], ["gemm", 1.0, False]]}
    evaluate(run, 2, findings=[{"code": "profile.kernels", "message": "Where time goes.", "data": data}])
    html = text(viewer, run, 2)
    assert "2 calls, at least 1,000 tokens" in html and "$0" not in html
    assert "Where time goes." in html and "75 %" in html
