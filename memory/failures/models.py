"""Rows of failures: what failed, and which failures have one cause."""

from __future__ import annotations

from django.conf import settings
from django.db import models

from memory.patterns.messages import readable

SHORT_TITLE = 80  # characters of a cluster's message in lists


class FailureCluster(models.Model):
    """Failures of one fingerprint: stage, kind of error, normalised message, operator. Counts are read, never stored.

    `key` depends on nothing but those four, so the same failures give the same clusters in every order and database.
    """

    key = models.CharField(max_length=12, unique=True)
    stage = models.CharField(max_length=20)
    kind = models.CharField(max_length=60)  # reason code of the judge or of the proposal
    operator = models.CharField(max_length=60, blank=True)  # what the kernel was doing, where the message says it
    pattern = models.CharField(max_length=40, blank=True)  # code of the known pattern; "": unknown
    text = models.CharField(max_length=300)  # the message with its accidents masked
    # What people decided about it.
    merged_into = models.ForeignKey("self", null=True, blank=True, on_delete=models.SET_NULL, related_name="merged")
    assignee = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, blank=True, on_delete=models.SET_NULL)
    muted_at = models.DateTimeField(null=True, blank=True)
    muted_count = models.PositiveIntegerField(default=0)  # failures when it was muted: it escalates past twice that
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ("key",)

    def __str__(self) -> str:
        return f"{self.key} {self.text[:60]}"

    @property
    def title(self) -> str:
        """What people call it. One error at two stages is two clusters: the stage tells them apart."""
        return self._titled(self.text)

    @property
    def short_title(self) -> str:
        """The same for lists; the stage is not cut off."""
        text = readable(self.text)
        return self._titled(text if len(text) <= SHORT_TITLE else f"{text[:SHORT_TITLE]}…")

    def _titled(self, text: str) -> str:
        words = readable(text) or "no message"
        return f"{words[:1].upper()}{words[1:]} ({self.stage.replace('_', ' ')})"


class Failure(models.Model):
    """One completed node that did not pass. Written with the verdict; only `lesson` is edited later."""

    class Lesson(models.TextChoices):
        NONE = "", "not asked"
        RULE = "rule"  # its sightings name the rule
        NOTHING = "nothing"  # nothing can be learned from it
        UNFIT = "unfit"  # it must not teach: a fault of the machine, a cheat; `lesson_why` says which

    node = models.OneToOneField("search.Node", on_delete=models.CASCADE, related_name="failure")
    run = models.ForeignKey("search.Run", on_delete=models.CASCADE, related_name="failures")
    problem = models.ForeignKey("judge.Problem", on_delete=models.CASCADE, related_name="failures")
    device = models.ForeignKey("judge.Device", on_delete=models.CASCADE, related_name="failures")
    cluster = models.ForeignKey(FailureCluster, on_delete=models.PROTECT, related_name="failures")
    verdict = models.CharField(max_length=20)
    stage = models.CharField(max_length=20)
    reason = models.CharField(max_length=60, blank=True)
    message = models.TextField(blank=True)  # at most 4,000 characters
    cost_s = models.FloatField(null=True, blank=True)  # judging and the proposer's calls; null: not known
    lesson = models.CharField(max_length=8, choices=Lesson.choices, default=Lesson.NONE, blank=True)
    lesson_why = models.CharField(max_length=200, blank=True)
    told_at = models.DateTimeField()

    class Meta:
        ordering = ("-told_at", "-id")
        indexes = [
            models.Index(fields=["cluster", "-told_at"], name="failure_of_cluster"),  # page of a cluster, trend
            models.Index(fields=["run", "cluster"], name="failure_of_run"),  # failures of one search
            models.Index(fields=["lesson", "id"], name="failure_to_learn"),  # not distilled yet
        ]

    def __str__(self) -> str:
        return f"failure of node {self.node_id}"
