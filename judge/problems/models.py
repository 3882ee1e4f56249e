"""Rows of problems: modules to make faster."""

from __future__ import annotations

import secrets
from typing import Any

from django.conf import settings
from django.db import models
from django.db.models import Q
from django.utils.translation import gettext_lazy as _

from judge.values import Gradients, Policy, Precision, ProblemSpec, SealedCase


class Problem(models.Model):
    """A PyTorch module to make faster. The source never changes; a new text is a new row: another problem, or the next
    version of one. Searches, verdicts and speedups belong to one row, so versions never mix."""

    class Origin(models.TextChoices):
        SAMPLE = "sample", _("Sample")
        UPLOAD = "upload", _("Upload")
        IMPORT = "import", _("Import")
        SYNTHETIC = "synthetic", _("Synthetic")  # composed by an adapt run

    class State(models.TextChoices):
        PENDING = "pending", _("Pending")  # not yet admitted: nobody has run it
        ADMITTED = "admitted", _("Admitted")
        DEGENERATE = "degenerate", _("Degenerate")  # admitted with a flag, left out of aggregates
        REFUSED = "refused", _("Refused")

    slug = models.SlugField(max_length=80, unique=True)
    title = models.CharField(max_length=120)
    description = models.TextField(blank=True)
    source = models.TextField()
    # ProblemSpec.hash, one row per text and policy: a second upload finds the first
    source_hash = models.CharField(max_length=64, unique=True)
    policy = models.JSONField(default=dict, blank=True)  # Policy.to_json(); part of source_hash, so it never changes
    origin = models.CharField(max_length=10, choices=Origin.choices)
    family = models.CharField(max_length=40, blank=True)
    level = models.CharField(max_length=40, blank=True)  # KernelBench level folder, e.g. "level2"
    state = models.CharField(max_length=12, choices=State.choices, default=State.PENDING)
    admission = models.JSONField(default=dict, blank=True)  # device name -> AdmissionReport.to_json()
    strikes = models.PositiveSmallIntegerField(default=0)  # for broken bounds, as judge/problems/quarantine.py counts
    quarantined_at = models.DateTimeField(null=True, blank=True)  # nobody judges it until a person releases it
    quarantine_reason = models.CharField(max_length=300, blank=True)
    created_by = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, blank=True, on_delete=models.SET_NULL)
    original = models.ForeignKey(  # version 1 of it; None for that one itself
        "self", null=True, blank=True, on_delete=models.PROTECT, related_name="later_versions"
    )
    version = models.PositiveIntegerField(default=1)
    superseded = models.BooleanField(default=False)  # there is a newer version
    archived_at = models.DateTimeField(null=True, blank=True)  # equal for all versions
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ("-created_at", "-id")
        constraints = [
            models.UniqueConstraint(fields=["original", "version"], name="problem_version_once"),
            models.CheckConstraint(
                condition=Q(original=None, version=1) | Q(original__isnull=False, version__gt=1),
                name="problem_version_has_original",
            ),
        ]
        indexes = [
            models.Index(fields=["state", "family"], name="problem_state_family"),  # problem list filters
        ]

    def __str__(self) -> str:
        return self.slug

    @property
    def quarantined(self) -> bool:
        """Whether nothing of it is run until a person releases it."""
        return self.quarantined_at is not None

    @property
    def gradients(self) -> Gradients:
        """Of what it asks gradients."""
        return Policy.from_json(self.policy).gradients

    @property
    def numerics(self) -> Precision:
        """What its policy says of precision."""
        return Policy.from_json(self.policy).precision

    @property
    def versions(self) -> models.QuerySet[Problem]:
        """Every version of this problem, the newest first."""
        first = self.original_id or self.pk
        return Problem.objects.filter(Q(pk=first) | Q(original=first)).order_by("-version")

    def sealed_set(self, case: str | None) -> SealedSet | None:
        """The sealed cases in force on top of `case`."""
        return self.sealed_sets.filter(case=case or "").order_by("-number").first()

    def spec(self, case: str | None, sealed: SealedSet | None = None) -> ProblemSpec:
        """What the bench is given. `case` is one of the source's own; None means its plain constants."""
        return ProblemSpec(self.source, case, Policy.from_json(self.policy), sealed.as_cases() if sealed else ())

    def report_for(self, device_name: str) -> dict[str, Any] | None:
        """The stored admission report of one device, or None when the problem has not been tried there."""
        report = self.admission.get(device_name)
        return report if isinstance(report, dict) else None


OFFERED = Q(archived_at=None, superseded=False)  # in lists and where a search is started


def new_seed() -> str:
    """What decides the sealed cases of a set. Secret: whoever knows it can derive them."""
    return secrets.token_hex(16)


class SealedSet(models.Model):
    """Sealed cases on top of one case of a problem, derived at a preflight. The one of the highest number is in force.

    Neither `cases` nor `seed` is ever in a page, a prompt, a log, an answer of the API or an export, but for the one
    time that an admin opens the set. An opened one stays in force until another one is derived.
    """

    problem = models.ForeignKey(Problem, on_delete=models.CASCADE, related_name="sealed_sets")
    number = models.PositiveIntegerField()
    case = models.CharField(max_length=200, blank=True)  # of get_cases(); empty: the plain constants
    seed = models.CharField(max_length=32, default=new_seed)
    rules = models.CharField(max_length=40)  # version of the rules that derived them
    cases: Any = models.JSONField(default=list)  # SealedCase rows
    created_at = models.DateTimeField(auto_now_add=True)
    opened_at = models.DateTimeField(null=True, blank=True)
    opened_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, blank=True, on_delete=models.SET_NULL, related_name="+"
    )

    class Meta:
        ordering = ("problem", "number")
        constraints = [models.UniqueConstraint(fields=["problem", "number"], name="sealed_set_number_once")]

    def __str__(self) -> str:
        return f"sealed set {self.number} of {self.problem_id}"

    def as_cases(self) -> tuple[SealedCase, ...]:
        """As the bench is given them."""
        return tuple(SealedCase(**row) for row in self.cases)


def flag_codes(problem: Problem) -> list[str]:
    """Codes of the flaws that flag a problem as degenerate, each once."""
    reports = [entry for entry in problem.admission.values() if isinstance(entry, dict)]
    codes = [flaw["code"] for entry in reports for flaw in entry.get("flaws", ()) if flaw.get("flags")]
    codes += [entry["reason"] for entry in reports if entry.get("state") == "degenerate" and entry.get("reason")]
    return list(dict.fromkeys(codes))
