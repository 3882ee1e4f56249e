"""Downloads: attachments with harmless names, never rendered by a browser."""

from __future__ import annotations

import io
import zipfile

import pytest

from adaexplore_site.core.downloads import clean_name
from judge.problems.models import Problem
from tests.pages import client_of, full_run

pytestmark = pytest.mark.django_db


def test_kernel_and_proof_come_as_attachments():
    run, viewer = full_run(), client_of("viewer")
    kernel = viewer.get(f"/s/{run.pk}/n/2/kernel.py")
    assert kernel["Content-Disposition"].startswith('attachment; filename="kernel_relu_')
    assert kernel["X-Content-Type-Options"] == "nosniff"
    assert "alert(1)" in kernel.content.decode()
    proof = viewer.get(f"/s/{run.pk}/n/2/proof.zip")
    assert {"kernel.py", "repro.py", "verdict.json"} <= set(zipfile.ZipFile(io.BytesIO(proof.content)).namelist())


def test_a_node_without_a_kernel_has_no_download():
    run, viewer = full_run(), client_of("viewer")
    for name in ("kernel.py", "proof.zip"):
        assert viewer.get(f"/s/{run.pk}/n/0/{name}").status_code == 404


def test_a_hostile_slug_cannot_leave_the_header():
    run = full_run()
    Problem.objects.update(slug='x"\r\nSet-Cookie')
    header = client_of("viewer").get(f"/s/{run.pk}/n/2/kernel.py")["Content-Disposition"]
    assert "\r" not in header and header.count('"') == 2


@pytest.mark.parametrize(
    ("name", "clean"),
    [
        ("a b.py", "a-b.py"),
        ('x"; rm -rf /.py', "x-rm--rf-.py"),
        ("../../.bashrc", "bashrc"),
        ("\u202e", "kernel"),
        ("", "kernel"),
    ],
)
def test_names_keep_letters_digits_and_few_signs(name, clean):
    assert clean_name(name) == clean
