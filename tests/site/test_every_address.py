"""What holds for every address: sign-in, roles, no inline style, nothing from elsewhere, hostile text escaped."""

from __future__ import annotations

import re

import pytest
from django.template.loader import get_template
from django.test import Client

from search.records.models import Run
from tests.pages import HOSTILE, Address, addresses, client_of, full_run

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("kept_figures")]

OPEN = {"sign-in", "sign-in-link", "sign-out", "javascript-catalog"}
CHANGES = {
    "problem-upload",
    "problem-version",
    "problem-archive",
    "problem-delete",
    "problem-unseal",
    "self-test-start",
    "self-test-stop",
    "evaluation-sanitize",
    "evaluation-sanitize-stop",
    "device-state",
    "spend-budget",
    "spend-price",
    "spend-price-withdraw",
    "device-check",
    "node-revoke",
    "node-stop",
    "problem-preflight-stop",
    "problem-state",
    "run-pause",
    "run-resume",
    "run-stop",
    "run-archive",
    "node-reply",
    "node-branch",
    "kernel-verify",
    "kernel-dispute",
    "kernel-race",
    "kernel-mark",
    "kernel-recheck-cancel",
    "run-steer",
    "campaign-pause",
    "campaign-resume",
    "campaign-stop",
    "adapt-pause",
    "adapt-resume",
    "adapt-stop",
    "adapt-transfer",
    "action-undo",
    "member-invite",
    "member-roles",
    "member-link",
    "member-access",
    "token-issue",
    "token-revoke",
    "webhook-add",
    "webhook-switch",
    "webhook-test",
    "webhook-remove",
}
DECIDES = {"failure-act", "rule-act", "rule-hold", "rule-undo", "rule-import"}  # what a reviewer changes
OWN = {"notice-seen", "view-save", "view-rename", "view-delete"}  # what anybody changes for themselves
MOVED = {"device-list-old"}  # leads to its new place
FORMS = {
    "rule-new",
    "rule-bulk",
    "run-new",
    "problem-preflight",
    "run-import",
    "gallery",
    "run-remove",
    "campaign-new",
    "adapt-new",
}  # show on GET, change on POST


@pytest.fixture
def run() -> Run:
    return full_run()


def closed(run: Run) -> list[Address]:
    found = [address for address in addresses(run) if address.name not in OPEN]
    assert len(found) >= 16
    return found


def test_a_stranger_is_sent_to_sign_in_everywhere(run):
    for address in closed(run):
        for method in ("get", "post"):
            answer = getattr(Client(), method)(address.path)
            assert answer.status_code == 302, address
            assert answer["Location"].startswith("/sign-in/"), address


def test_a_viewer_reads_every_page_and_changes_nothing(run):
    viewer = client_of("viewer")
    for address in closed(run):
        expected = 403 if address.name in CHANGES | DECIDES else 302 if address.name in MOVED else 200
        expected = 405 if address.name in OWN else expected
        got = viewer.get(address.path).status_code
        assert got == expected or (expected, got) == (403, 405), address
        if address.name in CHANGES | DECIDES | FORMS:
            answer = viewer.post(address.path)
            assert answer.status_code == 403, address
            assert role_for(address.name) in answer.content.decode(), address


def role_for(name: str) -> str:
    """Who may POST there."""
    if name.startswith(("member-", "webhook-")) or name in ("problem-delete", "problem-unseal"):
        return "admin"
    return "reviewer" if name in DECIDES or name.startswith("rule-") else "operator"


def test_what_changes_something_cannot_be_had_by_a_link(run):
    clients = {role: client_of(role) for role in ("operator", "reviewer", "admin")}
    for address in closed(run):
        if address.name in CHANGES | DECIDES:
            client = clients[role_for(address.name)]
            assert client.get(address.path).status_code == 405, address


def test_no_page_holds_inline_styles_or_scripts_or_an_address_elsewhere(run):
    operator = client_of("operator")
    pages = [address.path for address in closed(run) if address.name not in CHANGES | DECIDES]
    tabs = [f"/s/{run.pk}/n/2/?tab={tab}" for tab in ("overview", "source", "diff", "exchange", "log")]
    for path in [*pages, *tabs, "/sign-in/", "/new?problem=relu", "/nothing-here"]:
        answer = operator.get(path)
        if not answer["Content-Type"].startswith("text/html"):
            continue
        html = answer.content.decode()
        assert not re.search(r"\sstyle\s*=", html), path
        assert not re.search(r"<style|\son\w+\s*=\s*[\"']", html), path
        assert not re.search(r'(?:src|href|action|hx-\w+)="(?:https?:)?//', html), path
        assert all("src=" in tag or 'type="application/json"' in tag for tag in re.findall(r"<script[^>]*>", html)), (
            path
        )


def test_hostile_titles_and_sources_reach_no_page_unescaped(run):
    viewer = client_of("viewer")
    rule = next(address.path for address in closed(run) if address.name == "rule-detail")
    for path in (
        "/",
        "/rules/",
        rule,
        "/rules/bulk?act=approve",
        f"/s/{run.pk}/n/2/",
        f"/s/{run.pk}/n/2/?tab=source",
        f"/s/{run.pk}/n/3/?tab=diff&base=2",
    ):
        html = viewer.get(path).content.decode()
        assert "<img src=x" not in html and "<script>alert" not in html, path
        assert "\u202e" not in html, path
    assert "&lt;img src=x" in viewer.get("/").content.decode()
    assert HOSTILE not in viewer.get(f"/s/{run.pk}/n/2/").content.decode()


def test_every_post_needs_the_form_s_token(run):
    client = Client(enforce_csrf_checks=True)
    client.cookies = client_of("operator").cookies
    for address in closed(run):
        if address.name in CHANGES | DECIDES | FORMS:
            answer = client.post(address.path)
            assert answer.status_code == 403, address
            assert "reload the page" in answer.content.decode(), address


def test_pages_are_not_cached_and_know_fragments(run):
    answer = client_of("viewer").get("/", headers={"HX-Request": "true"})
    assert "no-store" in answer["Cache-Control"]
    assert "HX-Request" in answer["Vary"]
    assert "<html" not in answer.content.decode()


def test_a_missing_page_says_so_within_the_shell():
    answer = client_of("viewer").get("/s/999999999999999999999/")
    assert answer.status_code == 404
    assert "All searches" in answer.content.decode()


def test_the_page_for_a_fault_stands_alone():
    html = get_template("500.html").render({})
    assert "Server error" in html
    assert "style=" not in html


@pytest.mark.parametrize(
    ("page", "back"), [("http://testserver/?q=a", "%2F%3Fq%3Da"), ("http://[x", "%2F"), ("http://testserver]/", "%2F")]
)
def test_a_signed_out_fragment_leads_the_whole_page_to_sign_in(page, back):
    headers = {"HX-Request": "true", "HX-Current-URL": page}
    answer = Client().get("/", headers=headers)
    assert (answer.status_code, answer.content) == (401, b"")
    assert answer["HX-Redirect"] == f"/sign-in/?next={back}"
