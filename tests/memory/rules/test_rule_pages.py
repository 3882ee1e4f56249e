"""Pages of rules: the queue, the library, one rule; acts by plain forms and by scripts; roles; cost."""

from __future__ import annotations

import os
import re
from datetime import timedelta

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.db import connection
from django.template.loader import get_template
from django.utils import timezone

from adaexplore_site.actions import registry
from adaexplore_site.core.models import AuditEntry
from judge.evaluations.models import Evaluation
from judge.problems.models import Problem
from memory.failures.models import Failure
from memory.prompting.freezing import place_of
from memory.prompting.lift import Lift
from memory.prompting.models import RuleUse
from memory.prompting.places import recent_nodes
from memory.prompting.scopes import Scope
from memory.rules.files import rules_import
from memory.rules.models import Rule, Sighting
from memory.rules.views import rule_cards
from tests.counting import calls_of
from tests.memory import decisions as acts
from tests.memory.decisions import rule_merge, undo
from tests.memory.rule_rows import card, failures, fresh, many, person, rule, seen_by
from tests.pages import HOSTILE, client_of

RULES = int(os.environ.get("RULES", "500"))  # RULES=2000 for the figures
pytestmark = pytest.mark.django_db
SCRIPT = {"HX-Request": "true"}


@pytest.fixture(autouse=True)
def graphs_read_anew(monkeypatch):
    """Row numbers come again in the next test: what a process remembers of them must not."""
    monkeypatch.setattr("memory.prompting.places._TRACED", {})


@pytest.fixture
def reviewer():
    return client_of("reviewer", "rita")


def post(client, row: Rule, act: str, *, revision: int | None = None, headers=None, **fields):
    row.refresh_from_db()
    data = {"act": act, "revision": row.revision if revision is None else revision, "version": row.current_id, **fields}
    return client.post(f"/rules/{row.pk}/act", data, headers=headers)


def test_the_list_tells_of_the_last_act_for_a_minute_only(reviewer):
    row = rule("Do not call tl.any.", seen=3)
    post(reviewer, row, "approve")
    said = f"Rule {row.pk} was approved"
    assert said in reviewer.get("/rules/").content.decode()
    AuditEntry.objects.filter(verb="rule.approve").update(created_at=timezone.now() - timedelta(seconds=61))
    html = reviewer.get("/rules/").content.decode()
    assert said not in html and "undo-line" not in html and "data-last" not in html
    assert "Undo" in reviewer.get(f"/rules/{row.pk}/").content.decode()


def test_a_card_shows_what_a_decision_needs(reviewer):
    row = rule("Do not call tl.any.", seen=3, message=f"Traceback\nCompilationError: {HOSTILE}")
    rule("You cannot call tl.any.")
    rule("Always call tl.any.")
    html = reviewer.get("/rules/").content.decode()
    for part in (
        "Do not call tl.any.",
        "no evidence yet",
        "Similar rules",
        "says the opposite",
        "candidates are in its scope",
    ):
        assert part in html, part
    failure = row.sightings.first().failure
    assert f"/s/{failure.run_id}/n/{failure.node.number}/" in html
    assert "CompilationError" in html and "<img src=x" not in html
    assert "1</strong> problem, 3 failures" in html
    assert "<dt>Cost</dt><dd>6.0 s" in html


@pytest.mark.parametrize(("known", "told"), [((), "unknown"), ((0,), "at least 2.0 s")])
def test_a_cost_that_nobody_knows_is_not_nothing(reviewer, known, told):
    row = rule("Do not call tl.any.", seen=2, cost_s=None)
    for place in known:
        Failure.objects.filter(pk=row.sightings.order_by("pk")[place].failure_id).update(cost_s=2.0)
    assert told in reviewer.get("/rules/").content.decode().partition("<dt>Cost</dt>")[2][:60]


def test_the_most_valuable_comes_first_and_what_another_holds_last():
    small, large, mine = rule("Do not call tl.any."), rule("Do not call tl.all.", seen=2), client_of("reviewer", "rolf")
    acts_by = client_of("reviewer", "rita")
    assert order(mine) == [large.pk, small.pk]
    assert order(mine, "?rule=" + str(small.pk)) == [small.pk, large.pk]
    assert acts_by.post(f"/rules/{large.pk}/hold").json() == {"holder": "", "revision": 0}
    assert mine.post(f"/rules/{large.pk}/hold").json()["holder"] == "rita"
    assert order(mine) == [small.pk, large.pk]
    assert "Held by rita" in mine.get("/rules/").content.decode()


def order(client, query: str = "") -> list[int]:
    return [card.rule.pk for card in client.get(f"/rules/{query}").context["cards"]]


def test_every_act_works_by_a_plain_form_and_leads_back(reviewer):
    row, other = rule(seen=3), rule("Do not call tl.all.")
    assert (
        post(reviewer, row, "edit", text="Do not call tl.dot so.", back=f"/rules/{row.pk}/")["Location"]
        == f"/rules/{row.pk}/"
    )
    assert post(reviewer, row, "scope", arch="sm_90")["Location"] == "/rules/"
    chosen = sorted(seen_by(row))[:1]
    assert post(reviewer, row, "split", failure=chosen, text="Do not call tl.dot twice.").status_code == 302
    assert post(reviewer, row, "rollback", number=1).status_code == 302
    assert post(reviewer, other, "merge", into=f"#{row.pk}").status_code == 302
    assert post(reviewer, other, "unmerge").status_code == 302
    assert post(reviewer, row, "approve", back="/rules/?q=dot")["Location"] == "/rules/?q=dot"
    assert post(reviewer, row, "retire", reason="2").status_code == 302
    assert post(reviewer, row, "restore").status_code == 302
    assert post(reviewer, other, "defer").status_code == 302
    html = reviewer.get(f"/rules/{row.pk}/").content.decode()
    assert "was approved" in html and "Roll back to 2" in html and "back to version 1" in html
    undo = reviewer.post("/rules/undo", {"action": AuditEntry.objects.latest("pk").pk})
    assert undo.status_code == 302 and fresh(other).deferred_until is None


def test_scopes_offered_on_a_card_hold_where_its_failures_were():
    row = rule(seen=2)
    failure = row.sightings.first().failure
    graph = {"nodes": [{"op": "aten.linear.default"}, {"op": "aten.relu.default"}]}
    Problem.objects.update(admission={"interpreter": {"state": "admitted", "graph": graph}}, family="dense layers")
    Evaluation.objects.create(problem=failure.problem, device=failure.device, toolchain="torch 2 triton 3.7.1 sm_90")
    (shown,) = rule_cards([row.pk], user=person(), now=timezone.now())
    offered = [choice.scope for choice in shown.scopes]
    assert offered == [Scope(), Scope("matmul"), Scope(arch="sm_90"), Scope(triton=">=3.7,<3.8")]
    where = place_of(Problem.objects.get(pk=failure.problem_id), failure.device)
    assert all(scope.holds(where) for scope in offered)
    assert {recent_nodes().reach(scope).reached for scope in offered} == {2}


@pytest.mark.parametrize("admission", [
    {},
    {"interpreter": {"state": "refused", "message": "It returns a dict."}},
    {"interpreter": {"state": "running", "stages": []}},
    {"interpreter": {"state": "admitted", "graph": None}},
    {"interpreter": None},
])  # fmt: skip
def test_a_rule_whose_problem_has_no_graph_is_shown_and_offered_no_operator_family(reviewer, admission):
    row = rule("Do not call tl.any.", seen=2)
    Problem.objects.update(admission=admission)
    for path in ("", f"{row.pk}/", f"cards?not={row.pk + 1}"):
        answer = reviewer.get(f"/rules/{path}")
        assert answer.status_code == 200 and "Do not call tl.any." in answer.content.decode(), path
    (shown,) = rule_cards([row.pk], user=person(), now=timezone.now())
    family = shown.scopes[1]
    assert (family.scope, family.why) == (None, "Its sightings do not share one operator family.")
    assert (shown.reach.of, recent_nodes().reach(Scope("matmul")).reached) == (2, 0)


@pytest.mark.parametrize(("late", "offered"), [("approve", False), ("reject", True)])
def test_a_late_decision_is_offered_again_only_where_it_would_change_something(reviewer, late, offered):
    row = rule()
    post(client_of("reviewer", "rolf"), row, "approve")
    html = post(reviewer, row, late, revision=0, reason="1").content.decode()
    assert ("the current version</button>" in html) is offered
    assert ("The rule is already approved" in html) is not offered


@pytest.mark.parametrize("scope", [{"arch": "zzz"}, {"family": "nonsense"}, {"triton": "abc"}, {"family": "x" * 99}])
def test_a_scope_that_no_prompt_can_meet_is_refused_with_what_to_write(reviewer, scope):
    row = rule()
    answer = post(reviewer, row, "scope", **scope)
    assert answer.status_code == 422 and fresh(row).revision == 0
    assert any(hint in answer.content.decode() for hint in ("sm_90", "matmul", "&gt;=3.4", "Shorten it"))


def test_a_merged_rule_is_found_among_the_closed_ones(reviewer):
    row, other = rule("Do not call tl.any."), rule("Do not call tl.all.")
    post(reviewer, row, "merge", into=other.pk)
    html = reviewer.get("/rules/?tab=closed").content.decode()
    assert "Do not call tl.any." in html and "Do not call tl.all." not in html
    assert f'merged into <a href="/rules/{other.pk}/">' in html


def test_only_who_has_the_keys_gets_folded_cards_that_scripts_refill(reviewer):
    many(8, seen=1)
    keyed, plain = (who.get("/rules/").content.decode() for who in (reviewer, client_of("operator", "otto")))
    assert "review-keys" in keyed and 'class="pager no-js"' in keyed
    assert "review-keys" not in plain and 'class="pager"' in plain


def test_scripts_get_the_card_again_only_while_it_waits(reviewer):
    row = rule()
    answer = post(reviewer, row, "edit", text="Never call tl.dot so.", headers=SCRIPT).json()
    assert "Never call tl.dot so." in answer["card"] and answer["open"] == 1
    done = post(reviewer, row, "approve", headers=SCRIPT).json()
    assert (done["card"], done["open"]) == ("", 0)
    undone = reviewer.post("/rules/undo", {"action": done["act"]}, headers=SCRIPT).json()
    assert f'id="rule-{row.pk}"' in undone["card"] and undone["open"] == 1


def test_a_late_decision_gets_both_versions_and_keeps_what_was_typed(reviewer):
    row = rule()
    old = row.current_id
    acts.rule_edit(text="Do not call tl.dot on one number.", **card(row, person("rolf")))
    sent = {"act": "edit", "revision": 0, "version": old, "text": "My own words on it."}
    page = reviewer.post(f"/rules/{row.pk}/act", sent)
    html = page.content.decode()
    assert page.status_code == 409
    for part in ("on one element", "on one number", "My own words on it.", "rolf", "anywhere"):
        assert part in html, part
    script = reviewer.post(f"/rules/{row.pk}/act", sent, headers=SCRIPT)
    assert script.status_code == 409 and "My own words on it." in script.json()["card"]
    assert fresh(row).current.number == 2
    again = {**sent, "revision": 1, "version": fresh(row).current_id}
    assert reviewer.post(f"/rules/{row.pk}/act", again).status_code == 302


def test_nonsense_is_refused_with_a_sentence(reviewer):
    row = rule()
    for status, fields in (
        (404, {"act": "explode"}),
        (422, {"act": "merge", "into": "x"}),
        (422, {"act": "scope", "triton": "soon"}),
        (422, {"act": "reject"}),
        (422, {"act": "defer", "days": 0}),
        (422, {"act": "split", "failure": ["x"], "text": "Do not call tl.all."}),
        (409, {"act": "retire", "reason": "1"}),
    ):
        answer = post(reviewer, row, **fields)
        assert answer.status_code == status, fields
    assert reviewer.post(f"/rules/{row.pk}/act", {"act": "approve"}).status_code == 422
    assert reviewer.post("/rules/undo", {"action": "7"}).status_code == 409
    assert reviewer.post("/rules/99/act", {"act": "approve"}).status_code == 404
    assert (fresh(row).revision, reviewer.get("/rules/99/").status_code) == (0, 404)


def test_viewers_read_operators_word_and_reviewers_decide():
    row, viewer, operator = rule(), client_of("viewer"), client_of("operator")
    html = viewer.get("/rules/").content.decode() + viewer.get(f"/rules/{row.pk}/").content.decode()
    button = re.compile(r"<button[^>]*>[^<]*Approve")
    assert "<textarea" not in html and not button.search(html)
    assert button.search(client_of("reviewer").get("/rules/").content.decode())
    assert post(viewer, row, "edit", text="Do not.").status_code == 403
    assert post(operator, row, "approve").status_code == 403
    assert post(operator, row, "edit", text="Do not call tl.dot so.").status_code == 302
    assert operator.post("/rules/new", {"text": "Do not call tl.all."}).status_code == 302
    assert operator.post("/rules/new", {"text": "Do not call tl.all."}).status_code == 409


def test_a_file_comes_in_and_goes_out_on_the_page(reviewer):
    sent = SimpleUploadedFile("mine.txt", b"You cannot use tl.any.||34.0\n")
    assert reviewer.post("/rules/import", {"file": sent}).status_code == 302
    assert "imported 34, <span" in reviewer.get("/rules/").content.decode()
    answer = reviewer.get("/rules/export?state=living")
    assert (answer.content, answer["X-Content-Type-Options"]) == (b"You cannot use tl.any.||34.0\n", "nosniff")
    bad = reviewer.post("/rules/import", {"file": SimpleUploadedFile("x", b"no\n")})
    assert bad.status_code == 422 and "Line 1" in bad.content.decode()
    assert reviewer.post("/rules/import").status_code == 422
    assert reviewer.get("/rules/export?state=all").status_code == 422


def test_bulk_says_how_many_first_and_asks_for_the_number_above_fifty(reviewer):
    many(60)
    rules_import(data=b"You cannot do it at line 3.||4\n", name="x.txt", user=None)
    html = reviewer.get("/rules/bulk?act=approve").content.decode()
    assert "60 rules to approve" in html and "1 left out" in html and "Type 60 to confirm" in html
    given = {"act": "approve", "expected": 60, "seen": re.findall(r'name="seen" value="(\w{16})"', html)[0]}
    assert reviewer.post("/rules/bulk", given).status_code == 409
    wrong = reviewer.post("/rules/bulk", given | {"typed": 59})
    assert wrong.status_code == 409 and "60 rules match now" in wrong.content.decode()
    unseen = reviewer.post("/rules/bulk", given | {"typed": 60, "seen": ""})
    assert unseen.status_code == 409 and "changed after the preview" in unseen.content.decode()
    assert reviewer.post("/rules/bulk", given | {"typed": 60}).status_code == 302
    page = reviewer.get("/rules/?tab=library")
    assert page.context["total"] == 60 and "60 rules approved at once" in page.content.decode()
    assert client_of("viewer").post("/rules/bulk", {"act": "approve"}).status_code == 403


def test_the_navigation_counts_what_waits(reviewer):
    assert "open-reviews" not in reviewer.get("/lab/").content.decode()
    rule()
    assert '<span id="open-reviews">1</span>' in reviewer.get("/lab/").content.decode()


def test_more_cards_leave_out_those_at_hand(reviewer):
    ids = many(9)
    first = order(reviewer)
    html = reviewer.get(f"/rules/cards?not={','.join(map(str, first))}").content.decode()
    assert all((f'id="rule-{pk}"' in html) == (pk not in first) for pk in ids) and "<html" not in html


def test_pages_of_many_rules_with_ten_times_as_many_sightings_take_bounded_work(reviewer):
    ids = many(RULES, seen=10)
    half, last = RULES // 2, RULES // 5
    Rule.objects.filter(pk__in=ids[half:-last]).update(state="approved", decided_at=timezone.now())
    Rule.objects.filter(pk__in=ids[-last:]).update(state="rejected", reject_reason="no")
    assert Sighting.objects.count() == 10 * RULES
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE")  # as a server does by itself before long
    for path in ("", "?tab=library&sort=support", "?tab=closed&q=reshape", "bulk?act=approve", f"{ids[7]}/"):
        assert reviewer.get(f"/rules/{path}").status_code == 200
        calls = calls_of(lambda path=path: reviewer.get(f"/rules/{path}"))
        assert calls < 250_000 + 300 * RULES, path


def test_the_queue_costs_the_same_number_of_queries_however_much_stands_behind_it(
    reviewer, django_assert_max_num_queries
):
    many(6, seen=1)
    with django_assert_max_num_queries(60) as first:
        assert reviewer.get("/rules/").status_code == 200
    many(60, seen=5)
    with django_assert_max_num_queries(len(first.captured_queries)):
        assert reviewer.get("/rules/").status_code == 200


def test_the_page_of_a_rule_lists_its_uses_and_how_they_ended(reviewer):
    row = rule(seen=2)
    for failure, arm in zip(failures(2), ("shown", "withheld"), strict=True):
        RuleUse.objects.create(node=failure.node, rule=row, version=row.current, arm=arm)
    html = reviewer.get(f"/rules/{row.pk}/").content.decode()
    for part in ("1 of the 2 prompts", "in the prompt", "withheld at random", "not valid"):
        assert part in html, part
    into = rule("Do not call tl.all.")
    merged = rule_merge(into=into.pk, **card(row, person()))
    assert "was in 1 of 2 prompts with its own text" in reviewer.get(f"/rules/{into.pk}/").content.decode()
    undo(merged.pk, user=person())
    acts.rule_approve(**card(row, person()))
    for sort in ("hits", "used", "lift", "support"):
        page = reviewer.get(f"/rules/?tab=library&sort={sort}")
        assert "1 of 2" in page.content.decode(), sort


@pytest.mark.parametrize(
    ("lift", "told"),
    [
        (Lift(40, 30, 35, 20, 0.18, 0.02, 0.34, -0.1, 0.4), "+18.0 points"),
        (Lift(40, 30, 35, 20, 0.18, 0.02, 0.34, -0.1, 0.4), "not decided: within chance for repeated looks"),
        (Lift(40, 30, 35, 20, 0.18, 0.02, 0.34, -0.1, 0.4, 7), "not decided: within chance for 7 rules and repeated"),
        (
            Lift(90, 60, 95, 30, 0.4, 0.3, 0.5, 0.2, 0.6, 7),
            "more candidates are valid with it, corrected for 7 rules",
        ),
        (Lift(40, 20, 35, 20, -0.05, -0.2, 0.1, -0.3, 0.2), "no effect shown"),
        (Lift(90, 20, 95, 60, -0.4, -0.5, -0.3, -0.6, -0.2), "fewer candidates are valid with it, corrected for re"),
        (Lift(12, 6, 3, 1), "no evidence yet"),
    ],
)
def test_a_lift_is_told_with_its_interval_or_not_at_all(lift, told):
    html = get_template("rules/_lift.html").render({"lift": lift})
    assert told in html and ("n=" in html) == lift.known


@pytest.mark.parametrize("path", ["/rules/?q=%00", "/rules/bulk?act=approve&q=%00", "/failures/?stage=%00"])
def test_a_nul_in_an_address_is_no_fault_of_the_server(reviewer, path):
    assert reviewer.get(path).status_code == (400 if connection.vendor == "postgresql" else 200)


def test_a_nul_in_a_form_changes_nothing_where_no_row_can_hold_it(reviewer):
    given = {"text": "Do not call tl.any on a block.", "key": "k\x00"}
    answer = reviewer.post("/rules/new", given)
    if connection.vendor == "postgresql":
        assert answer.status_code == 400 and "Nothing was changed" in answer.content.decode()
        assert not Rule.objects.exists()
    else:
        assert answer.status_code == 302


def test_help_and_palette_list_the_decisions_on_a_rule_before_what_is_done_to_many():
    offered = [action.name for action in registry.actions() if "rule-list" in action.pages]
    assert offered[:2] == ["view.save", "rule.approve"] and offered[-2:] == ["rules.import", "rule.undo"]
