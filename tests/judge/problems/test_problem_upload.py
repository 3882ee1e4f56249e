"""Uploads: the same text finds its row, the same name gets a suffix, hostile names lose their teeth."""

from __future__ import annotations

import threading

import pytest
from django.contrib.auth import get_user_model
from django.db import connection

from judge.problems import services as problems
from judge.problems.models import Problem
from judge.problems.services import ProblemRejected, problem_upload

SOURCE = """import torch

class Model(torch.nn.Module):
    def forward(self, x):
        return x * {factor}

def get_inputs():
    return [torch.rand(4)]

def get_init_inputs():
    return []
"""


def text(factor: float) -> bytes:
    return SOURCE.format(factor=factor).encode()


@pytest.mark.django_db
def test_an_upload_becomes_a_pending_row_of_its_user() -> None:
    user = get_user_model().objects.create_user("ada")
    problem, created = problem_upload(name="63_Gemm_ReLU.py", data=text(2), user=user)
    assert created and problem.created_by == user
    assert (problem.slug, problem.title, problem.state) == ("63_gemm_relu", "63 Gemm ReLU", Problem.State.PENDING)


@pytest.mark.django_db
def test_the_same_text_finds_the_first_row() -> None:
    first, _ = problem_upload(name="a.py", data=text(2))
    again, created = problem_upload(name="b.py", data=text(2).replace(b"\n", b"\r\n"))
    assert again.pk == first.pk and not created and Problem.objects.count() == 1


@pytest.mark.django_db
def test_the_same_name_with_another_text_gets_a_suffix() -> None:
    slugs = [problem_upload(name="scale.py", data=text(factor))[0].slug for factor in (1, 2, 3)]
    assert slugs == ["scale", "scale-2", "scale-3"]


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("name", "slug"),
    [
        ("../../etc/passwd.py", "passwd"),
        ("C:\\Users\\x\\my model.PY", "my-model"),
        ("<script>alert(1)</script>.py", "script"),
        ("\x00\r\n.py", "problem"),
        ("名前.py", "problem"),
        ("n" * 500 + ".py", "n" * 70),
    ],
)
def test_hostile_names_are_cleaned(name: str, slug: str) -> None:
    assert problem_upload(name=name, data=text(1))[0].slug == slug


@pytest.mark.django_db
def test_control_characters_written_as_escapes_in_the_docstring_are_stored_harmlessly() -> None:
    problem, _ = problem_upload(name="a.py", data=b'"""A\\x00B\\ud800"""\n' + text(1))
    problem.refresh_from_db()
    assert problem.title == "A\ufffdB?"


@pytest.mark.django_db
def test_a_refused_file_leaves_no_row() -> None:
    with pytest.raises(ProblemRejected):
        problem_upload(name="a.py", data=b"def x(:\n")
    assert Problem.objects.count() == 0


@pytest.mark.django_db
def test_a_slug_taken_in_between_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    problem_upload(name="scale.py", data=text(1))
    answers = iter(["scale", "scale-2"])  # the first answer is stale, as after a lost race
    monkeypatch.setattr(problems, "free_slug", lambda base: next(answers))
    problem, created = problem_upload(name="scale.py", data=text(2))
    assert created and problem.slug == "scale-2"


@pytest.mark.django_db
def test_where_every_slug_is_taken_the_upload_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    problem_upload(name="scale.py", data=text(1))
    monkeypatch.setattr(problems, "free_slug", lambda base: "scale")
    with pytest.raises(ProblemRejected, match="Too many uploads named 'scale' at this moment"):
        problem_upload(name="scale.py", data=text(2))


@pytest.mark.django_db(transaction=True)
def test_simultaneous_uploads_of_one_name_all_get_a_row() -> None:
    start, slugs = threading.Barrier(4), []

    def upload(factor: int) -> None:
        start.wait(timeout=120)
        slugs.append(problem_upload(name="scale.py", data=text(factor % 3))[0].slug)
        connection.close()

    threads = [threading.Thread(target=upload, args=(factor,)) for factor in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=120)
    assert set(slugs) == {"scale", "scale-2", "scale-3"} and len(slugs) == 4
    assert Problem.objects.count() == 3
