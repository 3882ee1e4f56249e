"""The page of a 400 says the cause where it is known, and blames no other."""

from __future__ import annotations

import pytest
from django.core.exceptions import BadRequest, SuspiciousOperation
from django.db import DataError
from django.test import RequestFactory

from adaexplore_site.core.middleware import NulIsBadInput, bad_request
from tests.pages import client_of

pytestmark = pytest.mark.django_db


def test_a_form_that_is_too_large_is_called_that(settings):
    settings.DATA_UPLOAD_MAX_MEMORY_SIZE = 100
    answer = client_of("operator").post("/campaigns/new", {"title": "x" * 200})
    html = answer.content.decode()
    assert answer.status_code == 400 and "larger than the server accepts" in html and "NUL" not in html


def test_a_form_with_too_many_fields_is_called_that(settings):
    settings.DATA_UPLOAD_MAX_NUMBER_FIELDS = 2
    answer = client_of("operator").post("/campaigns/new", {"problem": ["a", "b", "c"]})
    assert answer.status_code == 400 and "larger than the server accepts" in answer.content.decode()


def test_a_host_name_that_is_not_served_is_called_that(client, settings):
    settings.ALLOWED_HOSTS = ["localhost"]
    answer = client.get("/", headers={"Host": "elsewhere.test"})
    html = answer.content.decode()
    assert answer.status_code == 400 and "host name" in html and "NUL" not in html


@pytest.mark.parametrize("error", [BadRequest("odd"), SuspiciousOperation("odd")])
def test_an_unknown_cause_gets_a_general_page(error):
    answer = bad_request(RequestFactory().get("/"), error)
    html = answer.content.decode()
    assert answer.status_code == 400 and "could not understand the request" in html
    assert "NUL" not in html and "odd" not in html


def test_a_nul_is_called_that_and_other_errors_of_the_database_are_not_bad_input():
    request, check = RequestFactory().get("/"), NulIsBadInput(lambda request: None)
    answer = check.process_exception(request, DataError("PostgreSQL text fields cannot contain NUL (0x00) bytes"))
    assert answer is not None and "(NUL)" in answer.content.decode()
    assert check.process_exception(request, DataError("integer out of range")) is None
