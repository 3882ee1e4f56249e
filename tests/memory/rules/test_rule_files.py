"""Rule files: the published memory goes in and comes out the same; bad lines are named and nothing is half taken."""

from __future__ import annotations

from io import StringIO

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.core.management import CommandError, call_command
from django.urls import reverse

from adaexplore_site.core.audit import ActionRefused
from adaexplore_site.core.models import AuditEntry
from memory.prompting.scopes import Scope
from memory.rules.files import Line, read_rules, rules_import, rules_text, write_rules
from memory.rules.models import Rule
from memory.rules.services import rule_join
from tests.memory import decisions as acts
from tests.memory.decisions import rule_merge, undo
from tests.memory.rule_rows import card, failures, fresh, person, rule

pytestmark = pytest.mark.django_db
TWO = b"You cannot use tl.any.||3.0\nDo not write a || b in a mask.||1\n"


def lines(text: str) -> set[str]:
    return {line for line in text.split("\n") if line}


def test_the_published_memory_goes_in_and_comes_out_with_nothing_lost(fixtures_dir):
    path = fixtures_dir / "adaexplore_rules_v1_200.txt"
    for _ in range(2):
        call_command("import_rules", str(path), stdout=StringIO())
    out = StringIO()
    call_command("export_rules", stdout=out)
    assert lines(out.getvalue()) == lines(path.read_text()) and len(lines(out.getvalue())) == 174
    assert Rule.objects.filter(state="proposed", origin="import", imported_count__gte=3).count() == 78
    assert [act.after["known"] for act in AuditEntry.objects.filter(verb="rules.import").order_by("pk")] == [0, 174]


def test_an_import_is_taken_back_but_for_what_was_touched():
    act = rules_import(data=TWO, name="two.txt", user=None)
    kept = Rule.objects.first()
    acts.rule_approve(**card(kept))
    assert undo(act.pk, user=None).after["left"] == [kept.pk]
    assert list(Rule.objects.all()) == [kept]


def test_who_brought_a_file_in_did_not_write_its_rules():
    user = person()
    rules_import(data=b"You cannot use tl.any.||3\n", name="rules.txt", user=user)
    row = Rule.objects.get()
    assert acts.rule_approve(**card(row, user)).after["own"] is False
    acts.rule_edit(text="Do not call tl.any in a kernel.", **card(fresh(row), user))
    assert fresh(row).written_by(user)


def test_a_known_text_stays_what_it_is_and_takes_the_file_s_count():
    known = rule("You cannot use tl.any.")
    acts.rule_reject(reason="1", **card(known))
    act = rules_import(data=TWO, name="two.txt", user=None)
    known.refresh_from_db()
    assert (known.state, known.imported_count, act.after["changed"], len(act.after["made"])) == ("rejected", 3.0, 1, 1)
    undo(act.pk, user=None)
    known.refresh_from_db()
    assert known.imported_count is None


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (b"fine||1\nno bars\n", "Line 2: there are no two bars"),
        (b"||3\n", "Line 1: there is no text"),
        (b"a||x\n\nb||-1\nc||nan\n", "Line 3: the count"),
        (b"a||1\na||2\n", "Line 2: it repeats the rule of line 1"),
        (b"a\x00b||1\n", "control characters"),
        (b"x" * 1001 + b"||1\n", "1001 characters"),
        (b"a||1\n\xff||2\n", "Line 2 is not UTF-8"),
        (b"\n \n", "holds no rule"),
    ],
)
def test_bad_lines_are_named_and_nothing_is_taken(data, told):
    with pytest.raises(ActionRefused, match=told):
        rules_import(data=data, name="bad.txt", user=None)
    assert not Rule.objects.exists() and not AuditEntry.objects.exists()


def test_what_quotes_one_kernel_is_taken_but_not_approved_before_an_edit():
    rules_import(data=b"You cannot have an else at line 223.||79.0\n", name="x.txt", user=None)
    row = Rule.objects.get()
    with pytest.raises(ActionRefused, match="must be edited"):
        acts.rule_approve(**card(row))
    acts.rule_edit(text="You cannot have an else without an if.", **card(row, person()))
    acts.rule_approve(**card(row))
    assert rules_text(state="approved") == "You cannot have an else without an if.||79.0\n"


def test_counts_of_merged_rules_and_sightings_add_up_in_a_file():
    rules_import(data=TWO, name="two.txt", user=None)
    target = rule("Do not use tl.x.", seen=2)
    rule_merge(into=target.pk, **card(Rule.objects.get(imported_count=3.0)))
    assert lines(rules_text()) == {"Do not use tl.x.||5.0", "Do not write a || b in a mask.||1.0"}
    with pytest.raises(ActionRefused, match="by state"):
        rules_text(state="merged")


def test_rules_of_equal_words_and_other_scopes_are_one_line_that_can_be_read_again():
    rows = failures(3)
    given = {"claim": "Do not use triton.language.any.", "pattern": "tl-missing", "origin": "pattern"}
    for row, triton in zip(rows, (">=3.4,<3.5", ">=3.7,<3.8", ">=3.7,<3.8"), strict=True):
        rule_join(failure=row, scope=Scope(triton=triton), **given)
    assert Rule.objects.count() == 2
    assert read_rules(rules_text().encode()) == (Line("Do not use triton.language.any.", 3.0),)


def test_a_file_with_two_wordings_of_one_rule_settles_at_once():
    rules_import(data=b"Do not use tl.any.||3\n", name="x", user=None)
    row = Rule.objects.get()
    acts.rule_edit(text="Do not use tl.all in kernels.", **card(row, person()))
    data = b"Do not use tl.all in kernels.||5\nDo not use tl.any.||3\n"
    changed = [rules_import(data=data, name="y", user=None).after["changed"] for _ in range(3)]
    row.refresh_from_db()
    assert (changed, row.imported_count) == ([1, 0, 0], 5)


def test_the_undo_of_an_import_leaves_what_a_later_file_says():
    acts_of = [
        rules_import(data=f"Do not use tl.any.||{count}\n".encode(), name=name, user=None)
        for name, count in (("a", 3), ("b", 5), ("c", 7))
    ]
    undo(acts_of[1].pk, user=None)
    assert Rule.objects.get().imported_count == 7
    undo(acts_of[2].pk, user=None)
    assert (Rule.objects.get().imported_count, Rule.objects.get().imported_from) == (5, "b")


def test_the_undo_of_a_large_import_asks_a_few_questions(django_assert_max_num_queries):
    data = "".join(f"Do not use tl.any{k}.||1\n" for k in range(300)).encode()
    act = rules_import(data=data, name="x", user=None)
    with django_assert_max_num_queries(60):
        undo(act.pk, user=None)
    assert not Rule.objects.exists()


def test_writing_and_reading_are_inverse():
    given = (Line("Do not write a || b.", 2.5), Line("Use tl.where.", 0.0))
    assert read_rules(write_rules(given).encode()) == given


def test_the_commands_say_what_was_wrong(tmp_path):
    bad = tmp_path / "bad.txt"
    bad.write_text("nothing here\n")
    with pytest.raises(CommandError, match="Line 1"):
        call_command("import_rules", str(bad))
    with pytest.raises(CommandError, match="cannot be read"):
        call_command("import_rules", str(tmp_path / "none.txt"))
    rule("Do not use tl.x.")
    call_command("export_rules", "--state", "approved", "-o", str(tmp_path / "out.txt"), stdout=StringIO())
    assert (tmp_path / "out.txt").read_text() == ""


def test_the_list_says_once_what_was_imported_and_what_was_decided(client):
    client.force_login(person())
    data = SimpleUploadedFile("x.txt", b"Do not use tl.any.||1\n")
    page = client.post(reverse("rule-import"), {"file": data, "key": "k"}, follow=True).content.decode()
    assert page.count("1 rule imported, 0 known already.") == 1 and f'value="{AuditEntry.objects.get().pk}"' in page
    row = Rule.objects.get()
    sent = {"act": "defer", "days": "7", "revision": row.revision, "key": "d"}
    page = client.post(reverse("rule-act", args=[row.pk]), sent, follow=True).content.decode()
    assert page.count(f"Rule {row.pk} was deferred by 7 days.") == 1
    client.force_login(person("otto", "operator"))  # has no Undo, so the page has to say it
    sent = {"act": "edit", "text": "Do not use tl.all.", "revision": 1, "key": "e"}
    page = client.post(reverse("rule-act", args=[row.pk]), sent, follow=True).content.decode()
    assert page.count(f"Rule {row.pk} was edited.") == 1
