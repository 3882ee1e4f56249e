"""A problem after its upload: versions, archive, deletion."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest
from django.contrib.auth.models import User
from django.core.files.uploadedfile import SimpleUploadedFile

from adaexplore_site.actions import runner
from adaexplore_site.core.audit import ActionRefused
from adaexplore_site.core.models import AuditEntry
from judge.evaluations.models import Evaluation
from judge.problems.life_cycle import deletion_of, problem_archive, problem_delete, version_add
from judge.problems.models import OFFERED, Problem
from judge.problems.queries import problem_page
from judge.problems.services import ProblemRejected, problem_upload
from tests.judge.gpu_rows import gpu, passed, report
from tests.judge.problem_texts import module
from tests.pages import client_of
from tests.search.makers import make_device, make_run

pytestmark = pytest.mark.django_db
GOOD = module("return x * 2")
START = {"device": "interpreter", "proposer": "builtin", "steps": 5, "key": "k", "seed": "", "title": ""}
SECOND = GOOD + "\n# another text\n"


def uploaded() -> Problem:
    row, _ = problem_upload(name="norm.py", data=GOOD.encode())
    return row


def second(row: Problem) -> Problem:
    return version_add(problem=row, data=SECOND.encode())


def test_a_new_version_takes_the_place_of_the_one_before_and_keeps_its_policy():
    first = uploaded()
    Problem.objects.filter(pk=first.pk).update(policy={"precision": "tf32"}, level="level2")
    row = second(first)
    first.refresh_from_db()
    assert (row.version, row.original, row.policy, row.level) == (2, first, {"precision": "tf32"}, "level2")
    assert row.source_hash == row.spec(None).hash  # an upload of the same text under this policy finds it
    assert list(Problem.objects.filter(OFFERED)) == [row] and first.superseded
    assert [one.version for one in first.versions] == [one.version for one in row.versions] == [2, 1]


def test_versions_follow_the_newest_one_whichever_page_they_are_uploaded_on():
    first = uploaded()
    second(first)
    third = version_add(problem=first, data=(GOOD + "# third\n").encode())
    assert (third.version, third.original) == (3, first)


def test_searches_and_speedups_of_a_version_stay_with_it():
    first, device = uploaded(), gpu()
    passed(first, device, 100.0)
    row = second(first)
    assert problem_page().rows[0].pk == row.pk and problem_page().rows[0].bests == []
    assert Evaluation.objects.get().problem == first


def test_a_text_that_is_stored_already_is_no_new_version():
    first = uploaded()
    row = second(first)
    for text in (GOOD, SECOND):
        with pytest.raises(ActionRefused, match="of this problem already"):
            version_add(problem=row, data=text.encode())
    other, _ = problem_upload(name="other.py", data=(GOOD + "# other\n").encode())
    with pytest.raises(ActionRefused, match="stored as the problem"):
        version_add(problem=other, data=SECOND.encode())
    assert Problem.objects.count() == 3


def test_what_is_no_problem_is_no_version():
    first = uploaded()
    with pytest.raises(ProblemRejected, match="does not define"):
        version_add(problem=first, data=b"x = 1\n")
    assert not Problem.objects.get().superseded


def test_the_form_stores_a_version_and_undo_deletes_it_again():
    first, client = uploaded(), client_of("operator")
    answer = client.post(f"/problems/{first.slug}/version", {"file": SimpleUploadedFile("v.py", SECOND.encode())})
    row = Problem.objects.get(version=2)
    assert answer["Location"] == f"/problems/{row.slug}/"
    entry = AuditEntry.objects.get(verb="problem.version")
    runner.undo(entry, user=User.objects.get())
    first.refresh_from_db()
    assert Problem.objects.get() == first and not first.superseded


def test_both_versions_and_their_difference_have_a_page():
    first, client = uploaded(), client_of("viewer")
    row = second(first)
    html = client.get(f"/problems/{first.slug}/").content.decode()
    assert f'<a href="/problems/{row.slug}/">Version 2</a> is newer' in html
    html = client.get(f"/problems/{row.slug}/diff?with={first.slug}").content.decode()
    assert "Version 1 to version 2" in html and "another text" in html
    other, _ = problem_upload(name="other.py", data=(GOOD + "# other\n").encode())
    assert client.get(f"/problems/{row.slug}/diff?with={other.slug}").status_code == 404


def test_an_archived_problem_is_in_no_list_and_no_start_form_and_loses_nothing():
    first, client = uploaded(), client_of("operator")
    row = second(first)
    make_device()
    assert problem_archive(problem=first, archived=True) and not problem_archive(problem=row, archived=True)
    assert not Problem.objects.filter(OFFERED).exists()
    assert not problem_page().rows and problem_page(archived=True).rows == [row]
    started = client.post("/new", START | {"problem": row.slug})
    assert "This problem is archived" in started.content.decode()
    assert client.get(f"/problems/{row.slug}/").status_code == 200
    with pytest.raises(ActionRefused, match="archived"):
        version_add(problem=row, data=(GOOD + "# third\n").encode())
    assert problem_archive(problem=row, archived=False) and problem_page().rows == [row]


def test_a_problem_that_a_search_uses_cannot_be_deleted():
    run = make_run()
    with pytest.raises(ActionRefused, match="1 search uses this problem"):
        problem_delete(problem=run.problem)
    client = client_of("admin")
    html = client.post(f"/problems/{run.problem.slug}/delete").content.decode()
    assert "1 search uses this problem" in html and "sure" not in html
    assert client.post(f"/problems/{run.problem.slug}/delete", {"sure": "1"}).status_code == 409
    assert Problem.objects.filter(pk=run.problem_id).exists()


def test_only_the_newest_version_and_none_under_a_preflight_is_deleted():
    first = uploaded()
    row = second(first)
    with pytest.raises(ActionRefused, match="newer version"):
        problem_delete(problem=first)
    device = gpu()
    begun = report()["environment"]["at"]
    row.admission = {device.name: {"state": "running", "stages": [], "started": begun}}
    row.save()
    at = datetime.fromisoformat(begun)
    assert "not finished" in deletion_of(row, at).why_not[0]
    assert not deletion_of(row, at + timedelta(hours=1)).why_not  # its worker is gone


def test_deletion_asks_says_what_goes_along_and_leaves_a_page_that_says_who_did_it():
    row, client = uploaded(), client_of("admin", "ada")
    passed(row, gpu(), 100.0)
    asked = client.post(f"/problems/{row.slug}/delete").content.decode()
    assert "1 verdict with its kernel and measurements is deleted too" in asked
    assert Problem.objects.exists()
    client.post(f"/problems/{row.slug}/delete", {"sure": "1"})
    assert not Problem.objects.exists() and not Evaluation.objects.exists()
    gone = client.get(f"/problems/{row.slug}/")
    assert "ada" in gone.content.decode() and row.title in gone.content.decode()


def test_the_api_tells_versions_and_lists_archived_ones_when_asked():
    first, client = uploaded(), client_of("viewer")
    row = second(first)
    (item,) = client.get("/api/v1/problems").json()["items"]
    assert (item["slug"], item["version"], item["superseded"], item["archived_at"]) == (row.slug, 2, False, None)
    assert client.get(f"/api/v1/problems/{first.slug}").json()["superseded"]
    problem_archive(problem=row, archived=True)
    assert client.get("/api/v1/problems").json()["items"] == []
    assert client.get("/api/v1/problems?archived=true").json()["items"][0]["archived_at"]


def test_roles_are_asked_for_in_the_server():
    row = uploaded()
    assert client_of("viewer").post(f"/problems/{row.slug}/archive", {"archived": "1"}).status_code == 403
    operator = client_of("operator")
    for act in ("delete", "unseal"):
        assert operator.post(f"/problems/{row.slug}/{act}", {"sure": "1"}).status_code == 403
    assert Problem.objects.filter(OFFERED).count() == 1


@pytest.mark.parametrize("versions", [1, 2])
def test_a_problem_that_somebody_deletes_meanwhile_is_refused_by_name(versions):
    row = uploaded()
    row = second(row) if versions == 2 else row
    problem_delete(problem=row)
    for act in (lambda: problem_delete(problem=row), lambda: problem_archive(problem=row, archived=True)):
        with pytest.raises(ActionRefused, match="no longer exists"):
            act()
