"""Rows of rules: what was learned, from which failures, and what people decided."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from django.conf import settings
from django.db import models
from django.db.models import Q
from django.utils.translation import gettext_lazy as _
from django.utils.translation import gettext_noop

from memory.prompting.assignment import PromptRule
from memory.prompting.scopes import Scope
from memory.rules.wording import claim_fault, words_hash

if TYPE_CHECKING:
    from django.contrib.auth.models import AbstractBaseUser
    from django_stubs_ext import StrOrPromise

REASONS = {  # of a rejection or retirement, by the number on its button; stored as text of its rule
    "1": gettext_noop("The claim does not follow from its sightings"),
    "2": gettext_noop("Too vague to act on"),
    "3": gettext_noop("True of one kernel or problem only"),
    "4": gettext_noop("Another rule says it already"),
    "5": gettext_noop("The harness was at fault, not the kernel"),
}


class Rule(models.Model):
    """One thing not to do, or to do. Its text and scope are those of its current version.

    Support (distinct problems among its sightings) and lift are read from rows, never stored.
    """

    class State(models.TextChoices):
        PROPOSED = "proposed"
        APPROVED = "approved"
        REJECTED = "rejected"
        RETIRED = "retired"
        MERGED = "merged"  # `merged_into` has its sightings

    class Origin(models.TextChoices):
        PATTERN = "pattern", _("Pattern")  # distilled by the table of known errors
        MODEL = "model", _("Model")  # distilled by a language model
        IMPORT = "import", _("Import")  # a rule file: no sightings here
        PERSON = "person", _("Person")

    state = models.CharField(max_length=8, choices=State.choices, default=State.PROPOSED)
    origin = models.CharField(max_length=7, choices=Origin.choices)
    pattern = models.CharField(max_length=40, blank=True)  # code of the known error it speaks of
    current = models.ForeignKey("RuleVersion", null=True, blank=True, on_delete=models.PROTECT, related_name="+")
    imported_count = models.FloatField(null=True, blank=True)  # as the file says; not support
    imported_from = models.CharField(max_length=160, blank=True)
    merged_into = models.ForeignKey("self", null=True, blank=True, on_delete=models.SET_NULL, related_name="merged")
    reject_reason = models.CharField(max_length=200, blank=True)
    recheck = models.CharField(max_length=200, blank=True)  # why a decided rule should be reviewed again
    deferred_until = models.DateTimeField(null=True, blank=True)
    held_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, blank=True, on_delete=models.SET_NULL, related_name="+"
    )  # who reviews it now
    held_until = models.DateTimeField(null=True, blank=True)
    decided_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, blank=True, on_delete=models.SET_NULL, related_name="+"
    )
    decided_at = models.DateTimeField(null=True, blank=True)
    revision = models.PositiveIntegerField(default=0)  # counts actions: a decision on an older revision is refused
    created_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, blank=True, on_delete=models.SET_NULL, related_name="+"
    )
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ("id",)
        indexes = [
            models.Index(fields=["state", "id"], name="rule_state"),  # queue, library, active rules
            models.Index(fields=["pattern"], name="rule_pattern"),  # which rule a new failure supports
        ]
        constraints = [
            models.CheckConstraint(
                condition=Q(state="merged", merged_into__isnull=False) | ~Q(state="merged"), name="rule_merged_into"
            ),
        ]

    def __str__(self) -> str:
        return f"rule {self.pk}"

    @property
    def info(self) -> RuleState:
        """What its state means."""
        return STATES[self.state]

    @property
    def offers(self) -> tuple[str, ...]:
        """Actions on this rule that are possible now, by the name that their forms send."""
        return self.info.allows + (self.info.allows_in_doubt if self.recheck else ())

    @property
    def successor(self) -> Rule:
        """The rule that has this one's sightings now: itself, or where its merges lead."""
        rule = self
        while rule.state == Rule.State.MERGED and rule.merged_into is not None:
            rule = rule.merged_into
        return rule

    @property
    def version(self) -> RuleVersion:
        """The current version: every rule has one once it is written."""
        assert self.current is not None
        return self.current

    @property
    def fault(self) -> str:
        """Why its text must be edited before a person can approve it, as a sentence; empty when nothing is wrong."""
        return claim_fault(self.version.text)

    def written_by(self, user: Any) -> bool:
        """Whether the person wrote the rule or its current text. Who imported it with a file did not."""
        if self.origin == Rule.Origin.IMPORT and self.version.number == 1:
            return False
        return user is not None and user.pk in (self.created_by_id, self.version.author_id)


@dataclass(frozen=True)
class RuleState:
    """What one state of a rule means, wherever it is asked for: in actions, lists, cards, prompts and files."""

    label: StrOrPromise
    style: str  # of the mark beside the label
    tab: str  # the list that shows such rules: queue, library or closed
    allows: tuple[str, ...]  # actions, by the name that their forms send
    allows_in_doubt: tuple[str, ...] = ()  # also these while the rule is to be reviewed again
    trusted: tuple[str, ...] = ()  # values of `RunMemory.trust` of the searches that use such rules
    result_of: str = ""  # the decision that leads to it


_WRITE = ("edit", "scope", "rollback")
_SHAPE = ("merge", "split")
# A rejected or retired rule keeps its text: a reviewer restores it before it is edited, so that no edit goes around a
# decision.
STATES: Mapping[str, RuleState] = {
    Rule.State.PROPOSED: RuleState(
        _("proposed"), "waiting", "queue", ("approve", "reject", "defer", *_WRITE, *_SHAPE), trusted=("auto",)
    ),
    Rule.State.APPROVED: RuleState(
        _("approved"),
        "ok",
        "library",
        ("retire", *_WRITE, *_SHAPE),
        allows_in_doubt=("approve", "defer"),
        trusted=("auto", "reviewed"),
        result_of="approve",
    ),
    Rule.State.REJECTED: RuleState(_("rejected"), "wrong", "closed", ("restore", *_SHAPE), result_of="reject"),
    Rule.State.RETIRED: RuleState(_("retired"), "pruned", "closed", ("restore", *_SHAPE), result_of="retire"),
    Rule.State.MERGED: RuleState(_("merged"), "pruned", "closed", ("unmerge",)),
}
IN_USE = [state for state, info in STATES.items() if info.trusted]  # some search shows such rules in its prompts


class RuleVersion(models.Model):
    """Text and scope of a rule at one time. Never edited: a change is the next version.

    An empty part of the scope means any. `scope_triton` is a range such as ">=3.4,<3.6" (packaging's specifiers).
    """

    rule = models.ForeignKey(Rule, on_delete=models.CASCADE, related_name="versions")
    number = models.PositiveIntegerField()
    text = models.CharField(max_length=1000)
    words = models.CharField(max_length=64, db_index=True)  # hash of the normalised text: finds rules that say the same
    scope_family = models.CharField(max_length=40, blank=True)  # operator family, as the judge's graphs name them
    scope_arch = models.CharField(max_length=20, blank=True)  # "sm_90"
    scope_triton = models.CharField(max_length=60, blank=True)
    why = models.CharField(max_length=200, blank=True)  # what was changed and why
    author = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, blank=True, on_delete=models.SET_NULL)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ("rule", "number")
        constraints = [models.UniqueConstraint(fields=["rule", "number"], name="rule_version_once")]

    def __str__(self) -> str:
        return f"rule {self.rule_id} v{self.number}"

    @classmethod
    def of(
        cls, rule: Rule, number: int, text: str, scope: Scope, author: AbstractBaseUser | None = None, why: str = ""
    ) -> RuleVersion:
        """A version that is not saved yet. The one place that computes the hash of a text."""
        bound = {"scope_family": scope.family, "scope_arch": scope.arch, "scope_triton": scope.triton}
        given: dict[str, Any] = {"author": author, "why": why[:200], **bound}
        return cls(rule=rule, number=number, text=text, words=words_hash(text), **given)

    @property
    def scope(self) -> Scope:
        """Where it holds. Raises BadScope for what was written by hand into the database."""
        return Scope(self.scope_family, self.scope_arch, self.scope_triton)

    def for_prompt(self, **more: Any) -> PromptRule:
        """As prompts use it; the rule comes with it. `more` is its score or arm."""
        given = {"rule": self.rule_id, "version": self.pk, "number": self.number, **more}
        return PromptRule(self.text, self.rule.pattern, text_hash=self.words or self.text, **given)


class Sighting(models.Model):
    """A failure that supports a rule. A merge moves it and says from where; a split moves it back."""

    rule = models.ForeignKey(Rule, on_delete=models.CASCADE, related_name="sightings")
    failure = models.ForeignKey("memory.Failure", on_delete=models.CASCADE, related_name="sightings")
    moved_from = models.ForeignKey(Rule, null=True, blank=True, on_delete=models.SET_NULL, related_name="+")
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ("id",)
        constraints = [models.UniqueConstraint(fields=["rule", "failure"], name="sighting_once")]

    def __str__(self) -> str:
        return f"rule {self.rule_id} <- failure {self.failure_id}"
