"""Rows of evaluations, measurements and races."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.db import models
from django.db.models import Q

from judge.devices.models import Device
from judge.problems.models import Problem, SealedSet
from judge.values import Audit, Basis, SpeedCall, Subject, Verdict
from judge.values.weights import NAME_CHARS

PROTOCOL_ELSEWHERE = "adaexplore/reported"  # of evaluations that came with an imported search


class Evaluation(models.Model):
    """One verdict on one candidate. What was found is never edited; a re-measurement is another row. Marks are people's
    or a later verdict's, and equal for every row of one kernel on one problem and device (see services)."""

    class Doubt(models.TextChoices):
        """Why a kernel is not believed although its verdict says that it may be."""

        QUARANTINED = "quarantined"
        FLAKY = "flaky"  # its verdicts differ from time to time

    problem = models.ForeignKey(Problem, on_delete=models.PROTECT, related_name="evaluations")
    device = models.ForeignKey(Device, on_delete=models.PROTECT, related_name="evaluations")
    candidate_hash = models.CharField(max_length=64)  # canonical: of the text that is loaded
    source = models.TextField()
    protocol = models.CharField(max_length=40)
    toolchain = models.CharField(max_length=120)
    gpu = models.CharField(max_length=80, blank=True)  # UUID of the GPU that all its measurements are of
    verdict = models.CharField(max_length=20, choices=[(v.value, v.value) for v in Verdict])
    stage = models.CharField(max_length=20)
    reason = models.CharField(max_length=60, blank=True)
    message = models.TextField(blank=True)
    loads = models.BooleanField(default=False)
    audit = models.CharField(max_length=10, choices=[(a.value, a.name.lower()) for a in Audit], blank=True)
    sealed_set = models.ForeignKey(  # that it was audited with
        SealedSet, null=True, blank=True, on_delete=models.SET_NULL, related_name="evaluations"
    )
    report = models.JSONField(default=dict)  # Outcome.to_json() without samples: stages, cases, environment, log
    # The headline speedup over eager, copied out of the report so that lists need not open it.
    speedup = models.FloatField(null=True, blank=True)
    speedup_low = models.FloatField(null=True, blank=True)
    speedup_high = models.FloatField(null=True, blank=True)
    speedup_n = models.PositiveIntegerField(null=True, blank=True)
    basis = models.CharField(max_length=10, choices=[(b.value, b.value) for b in Basis], blank=True)
    # Beside it, for the same lists: the speedup over eager as PyTorch ships, and over the fastest baseline that has a
    # time (a Subject, eager included). Unknown where a verdict is older than these baselines, or came from elsewhere.
    over_shipped = models.FloatField(null=True, blank=True)
    over_fastest = models.FloatField(null=True, blank=True)
    fastest = models.CharField(max_length=20, blank=True, choices=[(s.value, s.value) for s in Subject])
    shipped_interval = models.JSONField(null=True, blank=True)  # low, high and n of `over_shipped`
    fastest_interval = models.JSONField(null=True, blank=True)  # of `over_fastest`
    wall_ms = models.FloatField(default=0)
    doubt = models.CharField(max_length=12, choices=Doubt.choices, blank=True)
    doubt_reason = models.CharField(max_length=300, blank=True)
    retired = models.BooleanField(default=False)  # it leads no list of winners any more; nothing is wrong with it
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(speedup__isnull=True) | Q(verdict=Verdict.PASS.value),
                name="evaluation_speedup_only_with_pass",
            ),
            models.CheckConstraint(
                condition=Q(speedup__isnull=True) | Q(speedup__gt=0), name="evaluation_speedup_positive"
            ),
        ]
        indexes = [
            models.Index(  # the cache look-up before every evaluation
                fields=["problem", "device", "candidate_hash", "protocol", "toolchain"], name="evaluation_cache_key"
            ),
            models.Index(  # the few that carry a mark, for counts on every page of kernels
                fields=["problem", "device"],
                condition=Q(retired=True) | ~Q(doubt=""),
                name="evaluation_marked",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.candidate_hash[:12]} on {self.problem_id}: {self.verdict}"

    @property
    def kernel(self) -> dict[str, int | str]:
        """What names the kernel, for all verdicts on it there."""
        names = ("problem_id", "device_id", "candidate_hash")
        return {name: getattr(self, name) for name in names}

    @property
    def sealed_set_known(self) -> bool:
        """Whether somebody had seen the sealed cases that it was audited with."""
        opened = self.sealed_set.opened_at if self.sealed_set else None
        return opened is not None and opened < self.created_at

    @property
    def elsewhere(self) -> bool:
        """Whether somebody else's judge made it: recorded with a search that was imported, or not signed."""
        return self.basis == Basis.REPORTED or self.protocol == PROTOCOL_ELSEWHERE

    @property
    def may_be_best(self) -> bool:
        """Whether its speedup may be shown as a best: audited here, or reported by somebody else and marked so."""
        return self.speedup is not None and may_be_best(self.audit, self.basis, self.doubt)


def may_be_best(audit: str | None, basis: str | None, doubt: str | None = "") -> bool:
    """The rule behind every best: audited, or not of our own measurement at all; and not in doubt."""
    return (audit == Audit.PASSED or basis == Basis.REPORTED) and not doubt


AUDITED = Q(audit=Audit.PASSED.value) | Q(basis=Basis.REPORTED.value)


MAY_BE_BEST = AUDITED & Q(doubt="")


CARRIES_MARK = Q(retired=True) | ~Q(doubt="")  # word for word the condition of the index evaluation_marked


class Race(models.Model):
    """Two kernels of one problem measured side by side on one device: the first over the second. Never edited; of two
    races of the same kernels the newer one counts."""

    problem = models.ForeignKey(Problem, on_delete=models.PROTECT, related_name="races")
    device = models.ForeignKey(Device, on_delete=models.PROTECT, related_name="races")
    first_hash = models.CharField(max_length=64)  # canonical, as in Evaluation
    second_hash = models.CharField(max_length=64)
    evaluation = models.ForeignKey(Evaluation, on_delete=models.CASCADE, related_name="races")  # of the first, raced
    # Speed of the first over the second: median over pairs, 99.8 % interval.
    ratio = models.FloatField()
    low = models.FloatField()
    high = models.FloatField()
    n = models.PositiveIntegerField()
    basis = models.CharField(max_length=10, choices=[(b.value, b.value) for b in Basis])
    call = models.CharField(max_length=10, choices=[(c.value, c.value) for c in SpeedCall if c])
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ("-id",)
        constraints = [
            models.CheckConstraint(
                condition=Q(low__gt=0, ratio__gte=models.F("low"), high__gte=models.F("ratio")),
                name="race_interval_holds_ratio",
            ),
        ]
        indexes = [models.Index(fields=["problem", "device", "-id"], name="race_of_place")]  # who leads

    def __str__(self) -> str:
        return f"{self.first_hash[:12]} against {self.second_hash[:12]}: {self.call}"

    @property
    def speedup(self) -> float:
        """For the tag that prints measures."""
        return self.ratio


class Samples(models.Model):
    """Raw samples of one subject, with the summary that pages print."""

    subject = models.CharField(max_length=20, choices=[(s.value, s.value) for s in Subject])
    basis = models.CharField(max_length=10, choices=[(b.value, b.value) for b in Basis])
    method = models.CharField(max_length=40)
    samples_us = models.JSONField(default=list)
    n = models.PositiveIntegerField()
    median_us = models.FloatField()
    low_us = models.FloatField()
    high_us = models.FloatField()
    detail = models.JSONField(default=dict, blank=True)

    class Meta:
        abstract = True

    def __str__(self) -> str:
        return f"{self.subject} {self.median_us:.2f} µs ({self.basis})"


class Measurement(Samples):
    """Of one evaluation, in the evaluated case."""

    evaluation = models.ForeignKey(Evaluation, on_delete=models.CASCADE, related_name="measurements")

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["evaluation", "subject"], name="measurement_one_per_subject"),
            models.CheckConstraint(
                condition=Q(low_us__lte=models.F("median_us")) & Q(median_us__lte=models.F("high_us")),
                name="measurement_interval_holds_median",
            ),
        ]


class CaseMeasurement(Samples):
    """Of one evaluation, in another case of get_cases() that has a weight."""

    evaluation = models.ForeignKey(Evaluation, on_delete=models.CASCADE, related_name="case_measurements")
    case = models.CharField(max_length=NAME_CHARS)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["evaluation", "case", "subject"], name="case_measurement_one_per_subject"),
            models.CheckConstraint(
                condition=Q(low_us__lte=models.F("median_us")) & Q(median_us__lte=models.F("high_us")),
                name="case_measurement_interval_holds_median",
            ),
        ]


class SanitizerCheck(models.Model):
    """A person's request to run one evaluation's candidate under compute-sanitizer. It changes no verdict."""

    class State(models.TextChoices):
        QUEUED = "queued"
        RUNNING = "running"
        DONE = "done"
        FAILED = "failed"  # nothing is known of the kernel; the message says why

    OPEN = (State.QUEUED, State.RUNNING)

    evaluation = models.ForeignKey(Evaluation, on_delete=models.CASCADE, related_name="sanitizer_checks")
    state = models.CharField(max_length=8, choices=State.choices, default=State.QUEUED)
    asked_by = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, blank=True, on_delete=models.SET_NULL)
    asked_at = models.DateTimeField(auto_now_add=True)
    ended_at = models.DateTimeField(null=True, blank=True)
    message = models.CharField(max_length=600, blank=True)
    report: Any = models.JSONField(default=dict, blank=True)  # judge.values.sanitizer.SanitizerReport

    class Meta:
        ordering = ("-id",)
        constraints = [
            models.UniqueConstraint(  # a second press while one is under way changes nothing
                fields=["evaluation"],
                condition=Q(state__in=["queued", "running"]),
                name="sanitizer_check_one_at_a_time",
            ),
            models.CheckConstraint(
                condition=~Q(state="done") | Q(ended_at__isnull=False), name="sanitizer_check_done_has_ended"
            ),
        ]

    def __str__(self) -> str:
        return f"sanitizer check of {self.evaluation_id}: {self.state}"

    @property
    def open(self) -> bool:
        """Whether it waits or runs."""
        return self.state in self.OPEN
