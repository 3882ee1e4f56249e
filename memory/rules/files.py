"""Rules in and out as files: one `rule||count` a line, as AdaExplore publishes its memory (StigLidu/AdaExplore)."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from django.db.models import Count, F, OuterRef, Subquery

from adaexplore_site.core.audit import ActionRefused, action_done, action_on
from adaexplore_site.core.models import AuditEntry
from adaexplore_site.core.text import storable_text
from memory.prompting.scopes import Scope
from memory.rules.models import IN_USE, Rule, RuleVersion
from memory.rules.services import rules_locked
from memory.rules.wording import words_hash

if TYPE_CHECKING:
    from django.contrib.auth.models import AbstractBaseUser

MARK = "||"
MAX_TEXT = 1000
MAX_LINES = 20_000
MAX_BYTES = 4 << 20
MAX_FAULTS = 20  # named at once


class BadRuleFile(ActionRefused):
    """The file cannot be imported. The message names every bad line, up to `MAX_FAULTS`, and what to change."""


@dataclass(frozen=True)
class Line:
    """One rule of a file, with the count that it has there."""

    text: str
    count: float


def read_rules(data: bytes) -> tuple[Line, ...]:
    """The rules of a file in order, equal lines once. Raises BadRuleFile; blank lines are skipped."""
    if len(data) > MAX_BYTES:
        raise BadRuleFile(f"The file has more than {MAX_BYTES >> 20} MiB. Split it.")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise BadRuleFile(f"Line {line} is not UTF-8 text. Save the file as UTF-8 and try again.") from None
    faults: list[str] = []
    found: dict[str, tuple[int, Line]] = {}
    for number, raw in enumerate(text.split("\n"), 1):
        if not raw.strip():
            continue
        try:
            rule = _line(raw)
        except ValueError as error:
            faults.append(f"Line {number}: {error}")
            continue
        first, known = found.setdefault(rule.text, (number, rule))
        if known.count != rule.count:
            faults.append(f"Line {number}: it repeats the rule of line {first} with another count. Keep one of them.")
    if faults:
        more = [f"and {len(faults) - MAX_FAULTS} more."] if len(faults) > MAX_FAULTS else []
        raise BadRuleFile("Nothing was imported. " + "\n".join([*faults[:MAX_FAULTS], *more]))
    if not found:
        raise BadRuleFile("The file holds no rule. Each line must be a rule, two bars and a count: rule||3.")
    if len(found) > MAX_LINES:
        raise BadRuleFile(f"The file holds {len(found)} rules; the limit is {MAX_LINES}. Split it.")
    return tuple(line for _, line in found.values())


def _line(raw: str) -> Line:
    """Raises ValueError with a sentence."""
    text, mark, count = raw.strip("\r").rpartition(MARK)
    text = text.strip()
    if not mark:
        raise ValueError("there are no two bars between rule and count. Write rule||3.")
    if not text:
        raise ValueError("there is no text before the bars.")
    if len(text) > MAX_TEXT:
        raise ValueError(f"the rule has {len(text)} characters; the limit is {MAX_TEXT}.")
    if any(ord(char) < 32 or ord(char) == 127 for char in text):
        raise ValueError("the rule holds control characters. Remove them.")
    try:
        value = float(count)
    except ValueError:
        value = math.nan
    if not math.isfinite(value) or value < 0:
        raise ValueError(f"the count {count.strip()[:20]!r} is no number from 0 up.")
    return Line(text, value)


def write_rules(lines: Iterable[Line]) -> str:
    """The file's text: one line each, counts with at least one decimal as published ("34.0")."""
    return "".join(f"{line.text}{MARK}{float(line.count)!r}\n" for line in lines)


EXPORTS = {
    "living": IN_USE,
    **{state.value: (state,) for state in Rule.State if state != Rule.State.MERGED},
}


def rules_import(*, data: bytes, name: str, user: AbstractBaseUser | None, key: str | None = None) -> AuditEntry:
    """Every rule of a file becomes a proposed one, with the file's count, which is no support.

    A text that is known, in whatever state and version, stays what it is and takes the file's count; so the same
    file twice changes nothing. The entry counts `made` (rule numbers), `known`, `changed`. Raises ActionRefused
    with every bad line by its number; nothing is imported then.
    """
    lines = read_rules(data)
    place = storable_text(name)[-160:]
    with rules_locked():
        if done := action_done(key=key, verb="rules.import"):
            return done
        known = _known(lines)
        made = _made([line for line in lines if line.text not in known], place, user)
        before = _counted(lines, known, place)
        ids = [row[0] for row in before]
        after = [list(row) for row in Rule.objects.filter(pk__in=ids).values_list("pk", "imported_count")]
        facts = {"file": place, "made": made, "known": len(known), "changed": len(before), "counts": after}
        on, was = ("rules", 0), {"counts": before}
        return action_on(verb="rules.import", on=on, user=user, key=key, before=was, after=facts)


def _known(lines: Iterable[Line]) -> dict[str, Rule]:
    """Text -> rule that says or said exactly this; the current version of a rule before an old one of another."""
    wanted = {line.text: words_hash(line.text) for line in lines}
    rows = RuleVersion.objects.select_related("rule__current").order_by("-rule_id")
    known: dict[str, Rule] = {}
    for version in rows.filter(words__in=wanted.values()) if len(wanted) < 500 else rows:
        if version.text in wanted and (version.text not in known or version.rule.current_id == version.pk):
            known[version.text] = version.rule
    return known


def _made(lines: list[Line], place: str, user: AbstractBaseUser | None) -> list[int]:
    given: dict[str, Any] = {"origin": Rule.Origin.IMPORT, "imported_from": place, "created_by": user}
    rules = Rule.objects.bulk_create([Rule(imported_count=line.count, **given) for line in lines])
    pairs = zip(rules, lines, strict=True)
    RuleVersion.objects.bulk_create(
        RuleVersion.of(rule, 1, line.text, Scope(), user, "imported") for rule, line in pairs
    )
    first = RuleVersion.objects.filter(rule=OuterRef("pk"), number=1).values("pk")
    Rule.objects.filter(current__isnull=True).update(current=Subquery(first))
    return [rule.pk for rule in rules]


def _counted(lines: Iterable[Line], known: Mapping[str, Rule], place: str) -> list[list[Any]]:
    """Give known rules the file's counts. Returns [rule, count before, file before] of those that changed.

    A rule that the file has in several versions takes the count of its current one, else the last.
    """
    found: dict[int, tuple[Rule, float]] = {}
    pairs = [(known[line.text], line) for line in lines if line.text in known]
    for rule, line in sorted(pairs, key=lambda pair: pair[1].text == pair[0].version.text):
        found[rule.pk] = rule, line.count
    was: list[list[Any]] = []
    for rule, count in found.values():
        if rule.imported_count != count:
            was.append([rule.pk, rule.imported_count, rule.imported_from])
            Rule.objects.filter(pk=rule.pk).update(imported_count=count, imported_from=place)
    return was


def rules_text(*, state: str = "living") -> str:
    """Rules as a file: "living" (proposed and approved), or those of one state. Raises ActionRefused for another word.

    The count is the sum of the file's that a rule came from, that of rules merged into it, and its own sightings: the
    published format counts failures, not problems. It knows no scopes: rules of the same text are one line.
    """
    if state not in EXPORTS:
        raise ActionRefused(f"Rules are exported by state: {', '.join(EXPORTS)}, not {state!r}.")
    rules = Rule.objects.filter(current__isnull=False).annotate(text=F("current__text"), seen=Count("sightings"))
    rows = {row.pk: row for row in rules.order_by("pk")}
    counts = {pk: (row.imported_count or 0.0) + row.seen for pk, row in rows.items() if row.state != Rule.State.MERGED}
    for row in rows.values():
        end = row
        while end.state == Rule.State.MERGED and end.merged_into_id in rows:
            end = rows[end.merged_into_id]
        if end is not row and end.pk in counts:
            counts[end.pk] += row.imported_count or 0.0
    found: dict[str, float] = defaultdict(float)
    for pk, row in rows.items():
        if row.state in EXPORTS[state]:
            found[row.text] += counts[pk]
    return write_rules(Line(text, count) for text, count in found.items())


def export_note(*, state: str, count: int, user: AbstractBaseUser | None) -> AuditEntry:
    """Write an export into the audit log."""
    return action_on(verb="rules.export", on=("rules", 0), user=user, key=None, after={"state": state, "count": count})
