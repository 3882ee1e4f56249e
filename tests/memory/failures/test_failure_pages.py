"""Pages of failures: counts, filters, empty states, forms for reviewers, nothing hostile unescaped."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.test import Client

from adaexplore_site.core.models import AuditEntry
from memory.failures.models import Failure, FailureCluster
from memory.prompting.scopes import Scope
from memory.rules.models import Rule
from tests.memory.decisions import cluster_merge
from tests.memory.failure_rows import DTYPE, UNKNOWN, cluster_of, failed
from tests.pages import HOSTILE, client_of
from tests.search.live_rows import grow
from tests.search.makers import make_problem, make_run

pytestmark = pytest.mark.django_db


@pytest.fixture
def viewer() -> Client:
    return client_of("viewer")


def text(client: Client, path: str, status: int = 200) -> str:
    answer = client.get(path)
    assert answer.status_code == status
    return " ".join(answer.content.decode().split())


def test_a_cluster_says_its_count_share_ends_and_waste(viewer):
    run = make_run()
    rows = [failed(run), failed(run), failed(run, UNKNOWN)]
    Failure.objects.filter(pk=rows[0].pk).update(cost_s=2.5)
    html = text(viewer, "/failures/")
    assert "3 failures in 3 attempts; 1 of them (33 %) has no known cause." in html
    assert "Calls a Triton dtype" in html and "unknown error" in html
    assert "at least 2.5 s" in html and "1 of 2 unknown" in html
    assert f'href="/s/{run.pk}/n/{rows[0].node.number}/"' in html


def test_failures_of_one_search_leave_out_others(viewer):
    run, other = make_run(), make_run(problem=make_problem("gelu"))
    failed(run), failed(other, UNKNOWN)
    html = text(viewer, f"/s/{run.pk}/failures/")
    assert "Calls a Triton dtype" in html and "frobnicator" not in html
    assert "frobnicator" in text(viewer, f"/failures/?problem={other.problem_id}")
    assert "frobnicator" in text(viewer, f"/failures/?run={other.pk}")


@pytest.mark.parametrize(
    "query", ["stage=nothing", "run=x", "problem=-1", "sort=odd&muted=2", "run=99999999999999999999"]
)
def test_odd_queries_are_answered(viewer, query):
    failed(make_run())
    assert viewer.get(f"/failures/?{query}").status_code == 200


def test_no_failures_says_in_how_many_attempts(viewer):
    run = make_run()
    grow(run, speedup=2.0)
    assert "No failures in 1 attempt" in text(viewer, f"/s/{run.pk}/failures/")
    assert "No attempts yet" in text(viewer, f"/s/{make_run(seed=2).pk}/failures/")


def test_a_fragment_is_the_page_s_own_part(viewer):
    failed(make_run())
    answer = viewer.get("/failures/", headers={"HX-Request": "true"})
    assert "<html" not in answer.content.decode() and 'id="clusters"' in answer.content.decode()


def test_the_trend_counts_over_the_time_between_first_and_last(viewer):
    run = make_run()
    rows = [failed(run) for _ in range(3)]
    Failure.objects.filter(pk=rows[0].pk).update(told_at=rows[2].told_at - timedelta(days=2))
    assert 'aria-label="1 in the first half, 2 in the second"' in text(viewer, "/failures/")


def test_the_trend_of_merged_clusters_counts_the_failures_of_both(viewer):
    run = make_run()
    into, other = failed(run), failed(run, UNKNOWN)
    Failure.objects.filter(pk=other.pk).update(told_at=into.told_at - timedelta(days=2))
    assert "in the first half" in text(viewer, "/failures/")
    cluster_merge(cluster=other.cluster, into=into.cluster, user=None)
    for path in ("/failures/", f"/failures/{into.cluster.key}/", f"/s/{run.pk}/failures/"):
        assert 'aria-label="1 in the first half, 1 in the second"' in text(viewer, path), path


def test_hostile_text_of_errors_is_shown_as_text(viewer):
    run = make_run(title=HOSTILE)
    cluster = cluster_of(run, f"RuntimeError: {HOSTILE}<script>alert(1)</script>")
    for path in ("/failures/", f"/failures/{cluster.key}/", f"/s/{run.pk}/failures/"):
        html = text(viewer, path)
        assert "<img src=x" not in html and "<script>alert" not in html and "\u202e" not in html, path


def test_the_order_is_as_asked(viewer):
    run = make_run()
    cluster_of(run, count=2)
    cheap = failed(run, UNKNOWN)
    Failure.objects.filter(pk=cheap.pk).update(cost_s=100.0)
    by_count, by_cost = text(viewer, "/failures/"), text(viewer, "/failures/?sort=cost")
    assert by_count.index("Calls a Triton dtype") < by_count.index("frobnicator")
    assert by_cost.index("frobnicator") < by_cost.index("Calls a Triton dtype")


def test_a_viewer_sees_no_forms_and_may_not_act(viewer):
    cluster = cluster_of(make_run())
    assert "failure-act" not in text(viewer, f"/failures/{cluster.key}/")
    assert "<textarea" not in text(viewer, f"/failures/{cluster.key}/")
    answer = viewer.post(f"/failures/{cluster.key}/act", {"act": "mute"})
    assert answer.status_code == 403 and "reviewer" in answer.content.decode()


def test_a_reviewer_mutes_assigns_merges_and_undoes():
    client, run = client_of("reviewer", "rita"), make_run()
    cluster, other = cluster_of(run), cluster_of(run, UNKNOWN)
    path = f"/failures/{cluster.key}/act"
    for fields, said in [
        ({"act": "mute", "key": "a"}, "Muted at 1 failure"),
        ({"act": "unmute", "key": "b"}, "rita</bdi>: Unmuted"),
        ({"act": "assign", "assignee": "rita", "key": "c"}, "Assigned to rita"),
        ({"act": "merge", "into": other.key, "key": "d"}, "Its failures are shown under"),
        ({"act": "split", "key": "e"}, "Split off again"),
    ]:
        answer = client.post(path, fields, follow=True)
        assert said in " ".join(answer.content.decode().split()), fields
    html = text(client, f"/failures/{cluster.key}/")
    undo = html.split('name="action" value="')[1].split('"')[0]
    assert client.post(path, {"act": "undo", "action": undo, "key": "f"}).status_code == 302
    assert FailureCluster.objects.get(pk=cluster.pk).merged_into == other


@pytest.mark.parametrize(
    ("status", "fields", "why"),
    [
        (422, {"act": "undo", "action": "x"}, "Enter a whole number"),
        (409, {"act": "undo", "action": "7"}, "There is no such entry"),
        (422, {"act": "merge", "into": "none"}, "There is no cluster"),
        (422, {"act": "split", "part": "none"}, "There is no cluster"),
        (422, {"act": "assign", "assignee": "?"}, "There is no member"),
    ],
)
def test_what_cannot_be_done_shows_the_page_with_the_reason(status, fields, why):
    cluster = cluster_of(make_run())
    answer = client_of("reviewer").post(f"/failures/{cluster.key}/act", fields)
    html = answer.content.decode()
    assert answer.status_code == status and 'role="alert"' in html and why in html and "Examples" in html
    assert not AuditEntry.objects.filter(object_type="cluster").exists()


@pytest.mark.parametrize("fields", [{}, {"act": "odd"}])
def test_an_action_that_does_not_exist_is_not_found(fields):
    cluster = cluster_of(make_run())
    assert client_of("reviewer").post(f"/failures/{cluster.key}/act", fields).status_code == 404


def test_the_pattern_s_words_stand_in_the_form_and_become_a_rule():
    client, cluster = client_of("reviewer"), cluster_of(make_run(), count=2)
    html = text(client, f"/failures/{cluster.key}/")
    assert "Do not call a Triton dtype such as tl.float32(x)" in html and "2 failures can support it" in html
    bad = client.post(f"/failures/{cluster.key}/act", {"act": "propose", "claim": "Fix line 3 of candidate.py now."})
    assert bad.status_code == 409 and "Fix line 3" in bad.content.decode()
    claim = "Do not call dtypes of Triton; convert with x.to(tl.float32)."
    answer = client.post(f"/failures/{cluster.key}/act", {"act": "propose", "claim": claim, "key": "k"}, follow=True)
    assert "has 2 sightings now" in answer.content.decode()
    assert Rule.objects.get().current.text == claim
    assert "Do not call dtypes of Triton" in text(client, "/failures/")


def test_a_rule_of_a_cluster_holds_where_the_person_says():
    client, cluster = client_of("reviewer"), cluster_of(make_run())
    asked = {"act": "propose", "claim": "Do not call dtypes of Triton; convert with x.to(tl.float32).", "triton": ""}
    bad = client.post(f"/failures/{cluster.key}/act", {**asked, "family": "<b>", "arch": "sm_90"})
    assert bad.status_code == 422 and "no operator family" in bad.content.decode()
    assert 'value="&lt;b&gt;"' in bad.content.decode() and 'value="sm_90"' in bad.content.decode()
    client.post(f"/failures/{cluster.key}/act", {**asked, "family": "matmul", "arch": "sm_90", "key": "k"})
    assert Rule.objects.get().version.scope == Scope("matmul", "sm_90")


def test_a_cluster_that_may_not_teach_says_why_and_has_no_form():
    cluster = failed(make_run(), verdict="timed_out", reason="run.timeout", message="no answer within 60 s").cluster
    html = text(client_of("reviewer"), f"/failures/{cluster.key}/")
    assert "Time ran out" in html and "<textarea" not in html


def test_an_emptied_or_unknown_cluster(viewer):
    cluster = cluster_of(make_run())
    Failure.objects.all().delete()
    assert "No failures" in text(viewer, f"/failures/{cluster.key}/")
    text(viewer, "/failures/nothing-here/", 404)


def test_the_cockpit_names_causes_and_leads_to_their_clusters(viewer):
    run = make_run()
    failure = failed(run, DTYPE)
    html = text(viewer, f"/s/{run.pk}/")
    assert f'href="/failures/{failure.cluster.key}/"' in html and "Calls a Triton dtype" in html
    assert f'href="/s/{run.pk}/failures/"' in html


def test_the_number_of_queries_does_not_grow_with_failures(viewer, django_assert_max_num_queries):
    run = make_run()
    for number in range(12):
        failed(run, f"RuntimeError: odd thing {'abcdefghijkl'[number] * 3}")
    with django_assert_max_num_queries(26):
        assert viewer.get("/failures/").status_code == 200
