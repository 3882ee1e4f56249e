"""Of what gradients are asked is chosen when a problem comes in: on the page, by the API, by the command."""

from __future__ import annotations

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.core.management import CommandError, call_command

from judge.problems.models import Problem
from judge.problems.services import problem_upload
from judge.values import Gradients, Policy, Precision, ProblemSpec
from tests.judge.problems.test_problem_upload import text
from tests.pages import client_of
from tests.site.api.test_api_acts import API, Program

pytestmark = pytest.mark.django_db


def test_the_same_text_with_gradients_is_another_problem_that_says_so():
    plain, _ = problem_upload(name="scale.py", data=text(2))
    found = {one: problem_upload(name="scale.py", data=text(2), gradients=one)[0] for one in Gradients}
    assert found[Gradients.NONE] == plain and plain.policy == {} and Problem.objects.count() == 4
    of_all = found[Gradients.ALL]
    assert of_all.gradients is Gradients.ALL and of_all.title == f"{plain.title} (all gradients)"
    assert of_all.source_hash == ProblemSpec(of_all.source, policy=Policy(gradients=Gradients.ALL)).hash
    both, _ = problem_upload(name="scale.py", data=text(2), precision=Precision.TF32, gradients=Gradients.INPUTS)
    assert both.title == f"{plain.title} (TF32, gradients of inputs)"


@pytest.mark.parametrize(("asked", "found"), [({}, "none"), ({"gradients": "parameters"}, "parameters")])
def test_the_page_stores_what_was_chosen_and_the_problem_says_it(asked, found):
    client = client_of("operator")
    sent = {"file": SimpleUploadedFile("scale.py", text(2)), **asked}
    assert client.post("/problem-upload/", sent).status_code == 302
    problem = Problem.objects.get()
    assert problem.gradients == found
    html = client.get(f"/problems/{problem.slug}/").content.decode()
    assert ("of parameters: forward, then backward" in html) == bool(asked)


def test_the_form_explains_gradients_and_keeps_the_choice_when_the_file_is_refused():
    html = client_of("operator").get("/problems/").content.decode()
    assert 'name="gradients"' in html and "A kernel needs a backward of its own" in html
    sent = {"file": SimpleUploadedFile("no.py", b"x = ("), "gradients": "all"}
    html = client_of("operator", "two").post("/problem-upload/", sent).content.decode()
    assert '<option value="all" selected>' in html


def test_unknown_gradients_are_refused_with_those_there_are():
    sent = {"file": SimpleUploadedFile("scale.py", text(2)), "gradients": "some"}
    answer = client_of("operator").post("/problem-upload/", sent)
    assert answer.status_code == 422 and not Problem.objects.exists()
    assert "There are no gradients some. Choose none, inputs, parameters or all." in answer.content.decode()


def test_a_program_chooses_and_reads_them():
    robot = Program("operator")
    sent = {"file": {"name": "double.py", "text": text(2).decode()}, "gradients": "inputs"}
    assert robot.act("problem.upload", sent).status_code == 200
    [row] = robot.client.get(f"{API}/problems").json()["items"]
    assert row["gradients"] == "inputs"


def test_the_command_imports_with_the_gradients_it_is_given(tmp_path, capsys):
    (tmp_path / "scale.py").write_bytes(text(2))
    call_command("import_problems", str(tmp_path), gradients="all")
    assert Problem.objects.get().gradients is Gradients.ALL
    with pytest.raises(CommandError, match="invalid choice"):
        call_command("import_problems", str(tmp_path), "--gradients", "some")
