"""Rows of rules: what was learned, in which words, from what, and what people decided."""

from __future__ import annotations

from django.conf import settings
from django.db import models
from django.db.models import Q


class Rule(models.Model):
    """One thing not to do, or to do. Its words and scope are those of its current version.

    Support (distinct problems among its sightings) and lift are read from rows, never stored.
    """

    class State(models.TextChoices):
        PROPOSED = "proposed"
        APPROVED = "approved"
        REJECTED = "rejected"
        RETIRED = "retired"
        MERGED = "merged"  # `merged_into` has its sightings

    class Origin(models.TextChoices):
        PATTERN = "pattern"  # distilled by the table of known errors
        MODEL = "model"  # distilled by a language model
        IMPORT = "import"  # a rule file: no sightings of our own
        PERSON = "person"

    state = models.CharField(max_length=8, choices=State.choices, default=State.PROPOSED)
    origin = models.CharField(max_length=7, choices=Origin.choices)
    pattern = models.CharField(max_length=40, blank=True)  # code of the known error it speaks of
    current = models.ForeignKey("RuleVersion", null=True, blank=True, on_delete=models.PROTECT, related_name="+")
    imported_count = models.FloatField(null=True, blank=True)  # as the file says; no support of ours
    imported_from = models.CharField(max_length=160, blank=True)
    merged_into = models.ForeignKey("self", null=True, blank=True, on_delete=models.SET_NULL, related_name="merged")
    reject_reason = models.CharField(max_length=200, blank=True)
    recheck = models.CharField(max_length=200, blank=True)  # why a decided rule should be looked at again
    deferred_until = models.DateTimeField(null=True, blank=True)
    held_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, blank=True, on_delete=models.SET_NULL, related_name="+"
    )  # whose card it is right now
    held_until = models.DateTimeField(null=True, blank=True)
    decided_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, blank=True, on_delete=models.SET_NULL, related_name="+"
    )
    decided_at = models.DateTimeField(null=True, blank=True)
    revision = models.PositiveIntegerField(default=0)  # counts acts: a decision on an older card is told, not taken
    created_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, blank=True, on_delete=models.SET_NULL, related_name="+"
    )
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ("id",)
        indexes = [
            models.Index(fields=["state", "id"], name="rule_state"),  # queue, library, rules in force
            models.Index(fields=["pattern"], name="rule_pattern"),  # which rule a new failure supports
        ]
        constraints = [
            models.CheckConstraint(
                condition=Q(state="merged", merged_into__isnull=False) | ~Q(state="merged"), name="rule_merged_into"
            ),
        ]

    def __str__(self) -> str:
        return f"rule {self.pk}"


class RuleVersion(models.Model):
    """Words and scope of a rule at one time. Never edited: a change is the next version.

    An empty part of the scope means any. `scope_triton` is a range such as ">=3.4,<3.6" (packaging's specifiers).
    """

    rule = models.ForeignKey(Rule, on_delete=models.CASCADE, related_name="versions")
    number = models.PositiveIntegerField()
    text = models.CharField(max_length=1000)
    words = models.CharField(max_length=64, db_index=True)  # hash of the normalised text: who says the same
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
