"""Rules in and out as files of `rule||count` lines."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from django.db.models import Count, F, OuterRef, Subquery

from adaexplore_site.core.audit import ActionRefused, action_done, action_on
from adaexplore_site.core.models import AuditEntry
from adaexplore_site.core.text import storable_text
from memory.rules.desk import rules_locked
from memory.rules.files import BadRuleFile, Line, read_rules, write_rules
from memory.rules.models import Rule, RuleVersion
from memory.rules.wording import words_hash

if TYPE_CHECKING:
    from django.contrib.auth.models import AbstractBaseUser

LIVING = (Rule.State.PROPOSED, Rule.State.APPROVED)
EXPORTS = ("living", "proposed", "approved", "rejected", "retired")


def rules_import(*, data: bytes, name: str, user: AbstractBaseUser | None, key: str | None = None) -> AuditEntry:
    """Every rule of a file becomes a proposed one, with its count as the file says it: no support of ours.

    A text that is known, in whatever state and version, stays what it is and takes the file's count; so the same
    file twice changes nothing. Counts of the act: `made` (rule numbers), `known`, `changed`. Raises ActionRefused
    with every bad line by its number; nothing is imported then.
    """
    try:
        lines = read_rules(data)
    except BadRuleFile as error:
        raise ActionRefused(str(error)) from error
    place = storable_text(name)[-160:]
    with rules_locked():
        if done := action_done(key=key, verb="rules.import"):
            return done
        known = _known(lines)
        fresh = [line for line in lines if line.text not in known]
        made = _made(fresh, place, user)
        counts = _counted(lines, known, place)
        return action_on(
            verb="rules.import",
            on=("rules", 0),
            user=user,
            key=key,
            before={"counts": counts},
            after={"file": place, "made": made, "known": len(known), "changed": len(counts), "counts": _now(counts)},
        )


def _known(lines: Iterable[Line]) -> dict[str, Rule]:
    """Text -> rule that says or said exactly this; the current wording of a rule before an old one of another."""
    wanted = {words_hash(line.text): line.text for line in lines}
    texts = {line.text for line in lines}
    rows = RuleVersion.objects.select_related("rule__current")
    found = rows.filter(words__in=list(wanted)) if len(wanted) < 500 else rows
    known: dict[str, Rule] = {}
    for version in found.order_by("-rule_id"):
        if version.text in texts and (version.text not in known or version.rule.current_id == version.pk):
            known[version.text] = version.rule
    return known


def _made(lines: list[Line], place: str, user: AbstractBaseUser | None) -> list[int]:
    rules = Rule.objects.bulk_create(
        [
            Rule(origin=Rule.Origin.IMPORT, imported_count=line.count, imported_from=place, created_by=user)  # type: ignore[misc]
            for line in lines
        ]
    )
    RuleVersion.objects.bulk_create(
        [
            RuleVersion(rule=rule, number=1, text=line.text, words=words_hash(line.text), author=user, why="imported")  # type: ignore[misc]
            for rule, line in zip(rules, lines, strict=True)
        ]
    )
    first = RuleVersion.objects.filter(rule=OuterRef("pk"), number=1).values("pk")
    Rule.objects.filter(current__isnull=True).update(current=Subquery(first))
    return [rule.pk for rule in rules]


def _counted(lines: Iterable[Line], known: dict[str, Rule], place: str) -> list[list[Any]]:
    """Give known rules the file's counts. Returns [rule, count before, file before] of those that changed.

    A rule that the file has in several wordings takes the count of its current one, else the last.
    """
    told: dict[int, tuple[Rule, float]] = {}
    for line in sorted(lines, key=lambda line: line.text == _current_text(known.get(line.text))):
        if rule := known.get(line.text):
            told[rule.pk] = rule, line.count
    was: list[list[Any]] = []
    for rule, count in told.values():
        if rule.imported_count != count:
            was.append([rule.pk, rule.imported_count, rule.imported_from])
            Rule.objects.filter(pk=rule.pk).update(imported_count=count, imported_from=place)
    return was


def _current_text(rule: Rule | None) -> str | None:
    return rule.current.text if rule is not None and rule.current is not None else None


def _now(counts: list[list[Any]]) -> list[list[Any]]:
    """[rule, count] of the rules whose counts were changed: an undo leaves what a later file says."""
    rows = Rule.objects.filter(pk__in=[row[0] for row in counts]).values_list("pk", "imported_count")
    return [list(row) for row in rows]


def rules_text(*, state: str = "living") -> str:
    """Rules as a file: "living" (proposed and approved), or those of one state. Raises ActionRefused for another word.

    The count is the file's that a rule came from, that of rules merged into it, and its own sightings, added up: the
    published format counts failures, not problems. It knows no scopes: rules of the same words are one line.
    """
    if state not in EXPORTS:
        raise ActionRefused(f"Rules are exported by state: {', '.join(EXPORTS)}, not {state!r}.")
    states = LIVING if state == "living" else (state,)
    rules = Rule.objects.filter(current__isnull=False).annotate(text=F("current__text"), seen=Count("sightings"))
    rows = {row.pk: row for row in rules.order_by("pk")}
    counts = {pk: (row.imported_count or 0.0) + row.seen for pk, row in rows.items() if row.state != Rule.State.MERGED}
    for row in rows.values():
        end = row
        while end.state == Rule.State.MERGED and end.merged_into_id in rows:
            end = rows[end.merged_into_id]
        if end is not row and end.pk in counts:
            counts[end.pk] += row.imported_count or 0.0
    said: dict[str, float] = {}
    for pk, row in rows.items():
        if row.state in states:
            said[row.text] = said.get(row.text, 0.0) + counts[pk]
    return write_rules(Line(text, count) for text, count in said.items())


def export_note(*, state: str, count: int, user: AbstractBaseUser | None) -> AuditEntry:
    """An export is in the audit."""
    return action_on(verb="rules.export", on=("rules", 0), user=user, key=None, after={"state": state, "count": count})
