"""A problem's numerics are chosen when it comes in: on the page, by the API, by the command; strict unless said."""

from __future__ import annotations

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.core.management import CommandError, call_command

from judge.problems.models import Problem
from judge.problems.services import folder_import, problem_upload
from judge.values import Policy, Precision, ProblemSpec
from tests.judge.problems.test_problem_upload import text
from tests.pages import client_of
from tests.site.api.test_api_acts import API, Program

pytestmark = pytest.mark.django_db


def test_the_same_text_under_other_numerics_is_another_problem_that_says_so():
    strict, _ = problem_upload(name="scale.py", data=text(2))
    found = {one: problem_upload(name="scale.py", data=text(2), precision=one)[0] for one in Precision}
    assert found[Precision.STRICT] == strict and strict.policy == {} and Problem.objects.count() == 4
    shipped = found[Precision.SHIPPED]
    assert shipped.numerics is Precision.SHIPPED and shipped.title == f"{strict.title} (as PyTorch ships)"
    assert shipped.source_hash == ProblemSpec(shipped.source, policy=Policy(Precision.SHIPPED)).hash
    assert shipped.spec(None).policy.precision is Precision.SHIPPED
    again, created = problem_upload(name="b.py", data=text(2), precision=Precision.SHIPPED)
    assert again == shipped and not created
    long, _ = problem_upload(name="a.py", data=text(3), title="x" * 300, precision=Precision.HALF)
    assert long.title.endswith("x (half)") and len(long.title) == 120


@pytest.mark.parametrize(("asked", "found"), [({}, "strict"), ({"numerics": "shipped"}, "shipped")])
def test_the_page_stores_what_was_chosen(asked, found):
    sent = {"file": SimpleUploadedFile("scale.py", text(2)), **asked}
    assert client_of("operator").post("/problem-upload/", sent).status_code == 302
    assert Problem.objects.get().numerics == found


def test_unknown_numerics_are_refused_with_those_there_are_and_nothing_is_stored():
    sent = {"file": SimpleUploadedFile("scale.py", text(2)), "numerics": "fast"}
    answer = client_of("operator").post("/problem-upload/", sent)
    assert answer.status_code == 422 and not Problem.objects.exists()
    assert "There are no numerics fast. Choose strict, shipped, tf32 or half." in answer.content.decode()


def test_the_form_offers_them_and_keeps_the_choice_when_the_file_is_refused():
    html = client_of("operator").get("/problems/").content.decode()
    assert [f'<option value="{one.value}"' in html for one in Precision] == [True] * 4
    sent = {"file": SimpleUploadedFile("no.py", b"x = ("), "numerics": "tf32"}
    html = client_of("operator", "two").post("/problem-upload/", sent).content.decode()
    assert '<option value="tf32" selected>' in html


def test_a_program_chooses_and_reads_them():
    robot = Program("operator")
    sent = {"file": {"name": "double.py", "text": text(2).decode()}, "numerics": "tf32"}
    assert robot.act("problem.upload", sent).status_code == 200
    [row] = robot.client.get(f"{API}/problems").json()["items"]
    assert row["numerics"] == "tf32"


def test_the_command_imports_under_the_numerics_it_is_given(tmp_path, capsys):
    (tmp_path / "scale.py").write_bytes(text(2))
    call_command("import_problems", str(tmp_path), numerics="half")
    assert Problem.objects.get().numerics is Precision.HALF
    [known] = folder_import(path=tmp_path, precision=Precision.HALF)
    assert known.state == "known"
    with pytest.raises(CommandError, match="invalid choice"):
        call_command("import_problems", str(tmp_path), "--numerics", "fast")
