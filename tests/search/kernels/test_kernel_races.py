"""The list of kernels: a decided race breaks a tie, retired and doubted kernels leave the lead and are counted."""

from __future__ import annotations

import pytest

from adaexplore_site.core.models import AuditEntry
from judge.devices.models import Device
from judge.evaluations.models import Evaluation, Race
from judge.problems.costs import costs
from judge.problems.preflight import preflight
from judge.values import Basis
from search.kernels.document import winners_json
from search.kernels.winners import DOUBTED, RETIRED, Wanted, winners
from search.records.models import Node
from tests.pages import client_of
from tests.search.kernel_rows import gpu_run, kernel, key
from tests.search.steered import kernel_mark

pytestmark = pytest.mark.django_db
MEASURED = Wanted(Basis.MEASURED)


def race(first: Node, second: Node, call: str, ratio: float = 1.0) -> Race:
    return Race.objects.create(
        problem=first.run.problem, device=first.run.device, evaluation=first.evaluation, basis="measured", n=60,
        first_hash=first.evaluation.candidate_hash, second_hash=second.evaluation.candidate_hash,
        ratio=ratio, low=ratio * 0.99, high=ratio * 1.01, call=call,
    )  # fmt: skip


@pytest.fixture
def tied() -> list[Node]:
    """Three kernels whose intervals reach each other, the fastest last."""
    run = gpu_run("gelu", steps=9)
    return [kernel(run, speed, spread=0.1) for speed in (2.0, 2.02, 2.05)]


def leader(wanted: Wanted = MEASURED):
    (row,) = winners(wanted).rows
    return row


def test_a_race_takes_its_loser_out_of_the_tie_and_all_of_them_make_a_winner(tied):
    assert (leader().decided, leader().tied_count) == (False, 2)
    race(tied[2], tied[0], "faster", 1.04)
    assert (leader().decided, leader().tied_count) == (False, 1)
    race(tied[1], tied[2], "slower", 0.97)
    assert leader().decided and leader().leader.node == tied[2]
    assert [one.kernel.node for one in leader().beaten] == [tied[1], tied[0]]
    assert all(one.ratio.value > 1 for one in leader().beaten)


def test_who_beat_the_highest_number_leads(tied):
    race(tied[0], tied[2], "faster", 1.03)
    race(tied[0], tied[1], "faster", 1.02)
    assert leader().leader.node == tied[0] and leader().decided


@pytest.mark.parametrize("undecided", ["ambiguous", "unstable"])
def test_a_newer_race_that_decides_nothing_brings_the_tie_back(tied, undecided):
    for call in ("faster", undecided):
        for loser in tied[:2]:
            race(tied[2], loser, call)
    assert (leader().decided, leader().tied_count) == (False, 2)


def test_a_winner_that_is_not_audited_leads_nothing(tied):
    Evaluation.objects.filter(pk=tied[0].evaluation_id).update(audit="")
    race(tied[0], tied[2], "faster", 1.03)
    assert leader().leader.node == tied[2] and not leader().decided


def test_a_retired_kernel_leaves_the_lead_is_counted_and_comes_back_by_undo(tied, monkeypatch):
    operator = client_of("operator")
    path = f"/s/{tied[2].run_id}/n/{tied[2].number}/mark"
    for _ in range(2):
        answer = operator.post(path, {"mark": "retire", "key": "k", "back": "/kernels/?problem=gelu"})
        assert answer["Location"] == "/kernels/?problem=gelu"
    assert leader().leader.node == tied[1] and leader(Wanted(Basis.MEASURED, marked=RETIRED)).leader.node == tied[2]
    assert "1 retired" in operator.get("/kernels/").content.decode()
    html = operator.get("/kernels/?marked=retired").content.decode()
    assert f'value="{key(tied[2])}"' in html and 'value="restore"' in html
    act = AuditEntry.objects.get(key="k")
    assert operator.post(f"/activity/{act.pk}/undo", {"key": "u"}).status_code == 302
    assert leader().leader.node == tied[2]


def test_a_doubted_kernel_is_no_winner_and_its_list_says_why(tied):
    kernel_mark(node=tied[2], verb="kernel.flaky", user=None, reason="hangs <sometimes>")
    assert leader().leader.node == tied[1] and leader(Wanted(Basis.MEASURED, marked=DOUBTED)).leader.node == tied[2]
    html = client_of("viewer").get("/kernels/?marked=doubt").content.decode()
    assert "hangs &lt;sometimes&gt;" in html and "flaky" in html and "<span>fastest</span>" not in html


def test_re_verify_is_asked_from_the_list_and_shown_beside_the_old_verdict(tied, monkeypatch):
    sent = []
    monkeypatch.setattr("search.records.queue.send", sent.extend)
    operator = client_of("operator")
    path = f"/s/{tied[2].run_id}/n/{tied[2].number}/verify"
    assert operator.post(path, {"key": "k", "back": "/kernels/"}).status_code == 302
    assert [follow_up.task for follow_up in sent] == ["recheck_kernel"]
    assert "being judged again" in operator.get("/kernels/").content.decode()
    again = operator.post(path, {"key": "other", "back": "/kernels/"})
    assert again.status_code == 409 and "already" in again.content.decode()


def test_the_node_page_has_every_act_on_its_kernel_without_scripts(tied):
    node = tied[2]
    path = f"/s/{node.run_id}/n/{node.number}/"
    html = client_of("operator").get(path).content.decode()
    for words in (
        "/verify",
        "/dispute",
        'value="quarantine"',
        'value="flaky"',
        "data-optional",
        "Re-measure",
        "Dispute the verdict",
    ):
        assert words in html, words
    assert f"{node.source[:20]}" in html and "Submit an edited child" in html
    viewer = client_of("viewer").get(path).content.decode()
    assert "/verify" not in viewer and 'value="quarantine"' not in viewer
    refused = client_of("operator", "other").post(f"{path}dispute", {"reason": " ", "panel": str(node.number)})
    assert refused.status_code == 422 and "Enter why" in refused.content.decode()


@pytest.fixture
def on_two_gpus() -> list[Node]:
    """A slow and a fast kernel of one device class, each measured on a GPU of its own."""
    run = gpu_run("gelu", steps=9)
    Device.objects.filter(pk=run.device_id).update(pooled=True)
    return [kernel(run, speed, gpu=name) for speed, name in ((2.0, "GPU-1"), (3.0, "GPU-2"))]


def test_numbers_of_two_gpus_of_a_class_are_ranked_apart_until_a_race_decides(on_two_gpus):
    slow, fast = on_two_gpus
    rows = winners(MEASURED).rows
    assert [(row.gpu, row.leader.node, row.decided) for row in rows] == [("GPU-1", slow, True), ("GPU-2", fast, True)]
    assert [row["gpu"] for row in winners_json(rows)] == ["GPU-1", "GPU-2"]
    page = client_of("viewer").get("/kernels/").content.decode()
    assert "GPU-1" in page and "GPU-2" in page
    race(slow, fast, "faster", 1.1)
    assert leader().leader.node == slow and leader().gpu == "GPU-1"


def test_the_page_of_a_problem_lists_the_kernels_of_each_gpu_of_a_class_apart(on_two_gpus):
    slow, _fast = on_two_gpus
    device = Device.objects.get(pk=slow.run.device_id)
    problem = slow.run.problem
    problem.admission[device.name] = {"state": "admitted", "flops": 10, "case": None}
    (cost,) = costs(problem, [preflight(problem, device, now=problem.created_at)])
    assert [row.evaluation.gpu for row in cost.fastest] == ["GPU-1", "GPU-2"], "not by the time"
    Device.objects.update(pooled=False)
    device.refresh_from_db()
    (cost,) = costs(problem, [preflight(problem, device, now=problem.created_at)])
    assert [row.evaluation.gpu for row in cost.fastest] == ["GPU-2", "GPU-1"]
