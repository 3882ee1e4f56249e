"""The upload form: every bad file is a form error that says what to change, and stores nothing."""

from __future__ import annotations

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client

from judge.problems.models import Problem
from tests.pages import HOSTILE, client_of

pytestmark = pytest.mark.django_db

GOOD = b"""class Model: ...
def get_inputs(): return []
def get_init_inputs(): return []
"""
HTMX = {"HX-Request": "true"}


@pytest.fixture
def operator() -> Client:
    return client_of("operator")


def send(client: Client, data: bytes, name: str = "mine.py", **headers: str):
    return client.post("/problem-upload/", {"file": SimpleUploadedFile(name, data)}, headers=headers)


def test_a_good_file_leads_to_a_new_search(operator):
    answer = send(operator, GOOD)
    assert (answer.status_code, answer["Location"]) == (302, "/new?problem=mine")
    assert send(operator, GOOD + b"#2", **HTMX)["HX-Redirect"] == "/new?problem=mine-2"


def test_a_second_upload_of_the_same_text_finds_the_first(operator):
    send(operator, GOOD)
    answer = operator.post("/problem-upload/", {"file": SimpleUploadedFile("other.py", GOOD)}, follow=True)
    assert "already uploaded" in answer.content.decode()
    assert Problem.objects.count() == 1


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"", "empty"),
        (b"def get_inputs(): return []\n", "class Model(torch.nn.Module)"),
        (b"x = 1\nclass Model(:\n", "line 2"),
        (b"\x7fELF\x00\x01", "binary"),
        (b"# caf\xe9\nclass Model: ...\n", "not UTF-8"),
        (b"# " + b"x" * (300 << 10), "300 KiB; the limit is 256 KiB"),
    ],
)
def test_a_bad_file_is_a_form_error_and_nothing_is_stored(operator, data, says):
    for headers in ({}, HTMX):
        answer = send(operator, data, **headers)
        assert answer.status_code == 422
        html = answer.content.decode()
        assert says in html and 'role="alert"' in html
        assert ("<html" in html) is not bool(headers)
    assert not Problem.objects.exists()


def test_a_bad_file_is_named_with_its_line_and_what_was_chosen_stays(operator):
    sent = {"numerics": "half", "gradients": "inputs"}
    for headers in ({}, HTMX):
        given = {**sent, "file": SimpleUploadedFile("my gate.py", b"x = 1\nclass Model(:\n")}
        html = operator.post("/problem-upload/", given, headers=headers).content.decode()
        assert "<bdi>my gate.py</bdi> was not uploaded. Look at line 2." in html
        assert '<pre tabindex="0">This file is not valid Python' in html
        assert [f'<option value="{one}" selected>' in html for one in sent.values()] == [True, True]
    html = send(operator, b"", name="empty.py").content.decode()
    assert "<bdi>empty.py</bdi> was not uploaded.</strong> The file is empty." in html and "Look at line" not in html


def test_no_file_at_all_says_what_to_do(operator):
    answer = operator.post("/problem-upload/")
    assert answer.status_code == 422
    assert "Choose a .py file" in answer.content.decode() and "No file was uploaded." in answer.content.decode()


def test_a_hostile_file_name_is_only_text(operator):
    html = send(operator, b"", name=HOSTILE).content.decode()
    assert "<img" not in html and "\u202e" not in html
    send(operator, GOOD, name="../../" + HOSTILE)
    assert Problem.objects.get().slug.replace("-", "").isalnum()
