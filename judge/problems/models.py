"""Rows of problems: modules to make faster."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.db import models
from django.utils.translation import gettext_lazy as _

from judge.values import (
    Policy,
    Precision,
    ProblemSpec,
    SealedCase,
)


class Problem(models.Model):
    """A PyTorch module to make faster. The source never changes; a new text is a new row."""

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
    sealed_cases = models.JSONField(default=list, blank=True)  # SealedCase rows: never in a prompt, a log or an export
    origin = models.CharField(max_length=10, choices=Origin.choices)
    family = models.CharField(max_length=40, blank=True)
    level = models.CharField(max_length=40, blank=True)  # KernelBench level folder, e.g. "level2"
    state = models.CharField(max_length=12, choices=State.choices, default=State.PENDING)
    admission = models.JSONField(default=dict, blank=True)  # device name -> AdmissionReport.to_json()
    strikes = models.PositiveSmallIntegerField(default=0)  # for broken bounds, as judge/problems/quarantine.py counts
    quarantined_at = models.DateTimeField(null=True, blank=True)  # nobody judges it until a person releases it
    quarantine_reason = models.CharField(max_length=300, blank=True)
    created_by = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, blank=True, on_delete=models.SET_NULL)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ("-created_at", "-id")
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
    def numerics(self) -> Precision:
        """What its policy says of precision."""
        return Policy.from_json(self.policy).precision

    def spec(self, case: str | None) -> ProblemSpec:
        """What the bench is given. `case` is one of the source's own; None means its plain constants."""
        sealed = tuple(SealedCase(**row) for row in self.sealed_cases)
        return ProblemSpec(self.source, case, Policy.from_json(self.policy), sealed)

    def report_for(self, device_name: str) -> dict[str, Any] | None:
        """The stored admission report of one device, or None when the problem has not been tried there."""
        report = self.admission.get(device_name)
        return report if isinstance(report, dict) else None


def flag_codes(problem: Problem) -> list[str]:
    """Codes of the flaws that flag a problem as degenerate, each once."""
    reports = [entry for entry in problem.admission.values() if isinstance(entry, dict)]
    codes = [flaw["code"] for entry in reports for flaw in entry.get("flaws", ()) if flaw.get("flags")]
    codes += [entry["reason"] for entry in reports if entry.get("state") == "degenerate" and entry.get("reason")]
    return list(dict.fromkeys(codes))
