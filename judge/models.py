"""Rows of the judge: what is judged, where, what came of it, and the raw samples behind every number."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.db import models
from django.db.models import Q

from judge.values import Audit, Basis, Policy, ProblemSpec, SealedCase, SpeedCall, Subject, Verdict

MODELLED_ELSEWHERE = "modelled:"  # begins the names of external devices whose imported numbers a time model made
PROTOCOL_ELSEWHERE = "adaexplore/reported"  # of evaluations that came with an imported search


class Problem(models.Model):
    """A PyTorch module to make faster. The source never changes; a new text is a new row."""

    class Origin(models.TextChoices):
        SAMPLE = "sample"
        UPLOAD = "upload"
        IMPORT = "import"
        SYNTHETIC = "synthetic"  # composed by an adapt run

    class State(models.TextChoices):
        PENDING = "pending"  # not yet admitted: nobody has run it
        ADMITTED = "admitted"
        DEGENERATE = "degenerate"  # admitted with a flag, left out of aggregates
        REFUSED = "refused"

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
    created_by = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, blank=True, on_delete=models.SET_NULL)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ("-created_at", "-id")
        indexes = [
            models.Index(fields=["state", "family"], name="problem_state_family"),  # problem list filters
        ]

    def __str__(self) -> str:
        return self.slug

    def spec(self, case: str | None) -> ProblemSpec:
        """What the bench is given. `case` is one of the source's own; None means its plain constants."""
        sealed = tuple(SealedCase(**row) for row in self.sealed_cases)
        return ProblemSpec(self.source, case, Policy.from_json(self.policy), sealed)

    def report_for(self, device_name: str) -> dict[str, Any] | None:
        """The stored admission report of one device, or None when the problem has not been tried there."""
        report = self.admission.get(device_name)
        return report if isinstance(report, dict) else None


class Device(models.Model):
    """A place where candidates are judged. `compile` devices run nothing, `external` ones only own imported numbers."""

    class Kind(models.TextChoices):
        INTERPRETER = "interpreter"
        CUDA = "cuda"
        COMPILE = "compile"
        EXTERNAL = "external"

    class State(models.TextChoices):
        ACTIVE = "active"
        DRAINING = "draining"
        QUARANTINED = "quarantined"

    class Cause(models.TextChoices):
        """What the judge quarantines a device for."""

        NOISE = "noise"  # its calibration lies outside the allowed noise floor
        DRIFT = "drift"  # its baselines do not hold still
        FAULTS = "faults"  # the judge failed there again and again
        GPU = "gpu"  # its driver reports errors, or it is gone

    # "interpreter", "cuda:0", "compile:sm_90", "external:NVIDIA RTX A6000", "modelled:sm_90"
    name = models.CharField(max_length=60, unique=True)
    kind = models.CharField(max_length=12, choices=Kind.choices)
    title = models.CharField(max_length=120)
    arch = models.CharField(max_length=20, blank=True)  # "sm_90": what it is, or what the interpreter models
    facts = models.JSONField(default=dict, blank=True)  # peaks, versions, active sandbox layers
    state = models.CharField(max_length=12, choices=State.choices, default=State.ACTIVE)
    state_cause = models.CharField(max_length=10, choices=Cause.choices, blank=True)  # "": a person's decision
    state_reason = models.CharField(max_length=300, blank=True)
    state_at = models.DateTimeField(null=True, blank=True)
    faults = models.PositiveSmallIntegerField(default=0)  # of the judge, in a row
    drifts = models.PositiveSmallIntegerField(default=0)  # evaluations in a row whose eager time was off
    baselines_at = models.DateTimeField(null=True, blank=True)  # what was measured before is measured again
    seen_at = models.DateTimeField(null=True, blank=True)
    remote = models.BooleanField(default=False)  # enrolled: jobs go there as files, no worker here serves it

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(state_cause="") | Q(state="quarantined"), name="device_cause_only_in_quarantine"
            ),
        ]

    def __str__(self) -> str:
        return self.name

    @property
    def judges(self) -> bool:
        """Whether it says what is right: it runs kernels, here or on another machine."""
        return self.kind in (self.Kind.INTERPRETER, self.Kind.CUDA)

    @property
    def measures(self) -> bool:
        """Whether a worker here times kernels on it, so that it has a noise floor."""
        return self.kind == self.Kind.CUDA and not self.remote

    @property
    def queue(self) -> str:
        """Name of the Celery queue that this device's worker serves."""
        return f"device.{self.name.replace(':', '-')}"

    @property
    def basis(self) -> Basis | None:
        """What a time from this device is: measured, MODELLED, or reported by somebody else. None: it has no times."""
        return {
            self.Kind.CUDA: Basis.MEASURED,
            self.Kind.INTERPRETER: Basis.MODELLED,
            self.Kind.COMPILE: None,
            self.Kind.EXTERNAL: Basis.MODELLED if self.name.startswith(MODELLED_ELSEWHERE) else Basis.REPORTED,
        }[self.Kind(self.kind)]


class DeviceCheck(models.Model):
    """One check of a device: a kernel that is right, against itself. Never edited; the last tells the noise floor."""

    device = models.ForeignKey(Device, on_delete=models.CASCADE, related_name="checks")
    identity = models.CharField(max_length=80, blank=True)  # the GPU's UUID: its successor starts anew
    toolchain = models.CharField(max_length=120, blank=True)
    cause = models.CharField(max_length=10, choices=Device.Cause.choices, blank=True)  # why it did not pass; "": it did
    message = models.TextField(blank=True)
    # Nulls where nothing is timed, or where it ended before.
    noise_floor = models.FloatField(null=True, blank=True)  # a share: 0.006 is 0.6 %
    allowed = models.FloatField(null=True, blank=True)
    ratio = models.FloatField(null=True, blank=True)  # median over pairs, with its 99.8 % interval
    ratio_low = models.FloatField(null=True, blank=True)
    ratio_high = models.FloatField(null=True, blank=True)
    pairs = models.PositiveIntegerField(null=True, blank=True)
    kernel_us = models.FloatField(null=True, blank=True)
    gpu_errors = models.PositiveBigIntegerField(null=True, blank=True)  # uncorrected, as its driver counts them
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ("-id",)
        constraints = [
            models.CheckConstraint(
                condition=Q(noise_floor__isnull=True)
                | (
                    Q(noise_floor__gte=0, allowed__gt=0, pairs__gte=1, ratio__gt=0, kernel_us__gt=0)
                    & Q(allowed__isnull=False, pairs__isnull=False, ratio__isnull=False, kernel_us__isnull=False)
                ),
                name="device_check_noise_has_evidence",
            ),
            models.CheckConstraint(
                condition=~Q(cause="") | Q(noise_floor__isnull=True) | Q(noise_floor__lte=models.F("allowed")),
                name="device_check_passed_is_within",
            ),
        ]
        indexes = [models.Index(fields=["device", "-id"], name="device_check_last")]  # the page of a device

    def __str__(self) -> str:
        return f"check {self.pk} of {self.device_id}: {self.cause or 'passed'}"

    @property
    def passed(self) -> bool:
        """Whether the device may go on."""
        return not self.cause


class Evaluation(models.Model):
    """One verdict on one candidate. What was found is never edited; a re-measurement is another row. Marks are people's
    or a later verdict's, and equal for every row of one kernel on one problem and device (judge.services.marks)."""

    class Doubt(models.TextChoices):
        """Why a kernel is not believed although its verdict says that it may be."""

        QUARANTINED = "quarantined"
        FLAKY = "flaky"  # its verdicts differ from time to time

    problem = models.ForeignKey(Problem, on_delete=models.PROTECT, related_name="evaluations")
    device = models.ForeignKey(Device, on_delete=models.PROTECT, related_name="evaluations")
    candidate_hash = models.CharField(max_length=64)  # canonical: AST without comments and docstrings
    source = models.TextField()
    protocol = models.CharField(max_length=40)
    toolchain = models.CharField(max_length=120)
    verdict = models.CharField(max_length=20, choices=[(v.value, v.value) for v in Verdict])
    stage = models.CharField(max_length=20)
    reason = models.CharField(max_length=60, blank=True)
    message = models.TextField(blank=True)
    loads = models.BooleanField(default=False)
    audit = models.CharField(max_length=10, choices=[(a.value, a.name.lower()) for a in Audit], blank=True)
    report = models.JSONField(default=dict)  # Outcome.to_json() without samples: stages, cases, environment, log
    # The headline speedup over eager, copied out of the report so that lists need not open it.
    speedup = models.FloatField(null=True, blank=True)
    speedup_low = models.FloatField(null=True, blank=True)
    speedup_high = models.FloatField(null=True, blank=True)
    speedup_n = models.PositiveIntegerField(null=True, blank=True)
    basis = models.CharField(max_length=10, choices=[(b.value, b.value) for b in Basis], blank=True)
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
    def elsewhere(self) -> bool:
        """Whether somebody else's judge made it: recorded with a search that was imported, or not signed."""
        return self.basis == Basis.REPORTED or self.protocol == PROTOCOL_ELSEWHERE

    @property
    def may_be_best(self) -> bool:
        """Whether its speedup may be shown as a best: audited here, or reported by somebody else and marked so."""
        return self.speedup is not None and may_be_best(self.audit, self.basis, self.doubt)


class BatchJob(models.Model):
    """A job that left as a file for a remote device, and what came back. The same outcome counts once."""

    uid = models.CharField(max_length=32, unique=True)
    nonce = models.CharField(max_length=32)  # an outcome must repeat it: none is taken from another export
    device = models.ForeignKey(Device, on_delete=models.PROTECT, related_name="batch_jobs")
    problem = models.ForeignKey(Problem, on_delete=models.PROTECT, related_name="batch_jobs")
    candidate_hash = models.CharField(max_length=64)
    source = models.TextField()
    digest = models.CharField(max_length=64)  # of the job's signed body
    evaluation = models.OneToOneField(Evaluation, null=True, blank=True, on_delete=models.PROTECT)
    outcome_digest = models.CharField(max_length=64, blank=True)  # of the signed outcome that became the evaluation
    unsigned: Any = models.JSONField(default=dict, blank=True)  # digest of an unsigned outcome -> id of its evaluation
    created_at = models.DateTimeField(auto_now_add=True)
    imported_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        indexes = [
            models.Index(  # an export repeats the jobs that still wait
                fields=["device", "problem", "candidate_hash"], name="batch_job_waiting"
            ),
        ]

    def __str__(self) -> str:
        return f"job {self.uid[:12]} for {self.device_id}"


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


class SelfTest(models.Model):
    """One run of the judge's self-test on a device: what every attack, honest kernel and planted bug came to."""

    class State(models.TextChoices):
        QUEUED = "queued"
        RUNNING = "running"
        FINISHED = "finished"
        FAILED = "failed"  # the judge could not be tried at all; the message says why

    device = models.ForeignKey(Device, on_delete=models.CASCADE, related_name="self_tests")
    state = models.CharField(max_length=10, choices=State.choices, default=State.QUEUED)
    started_by = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, blank=True, on_delete=models.SET_NULL)
    queued_at = models.DateTimeField(auto_now_add=True)
    started_at = models.DateTimeField(null=True, blank=True)
    finished_at = models.DateTimeField(null=True, blank=True)
    protocol = models.CharField(max_length=40, blank=True)
    toolchain = models.CharField(max_length=120, blank=True)
    total = models.PositiveIntegerField(default=0)  # entries to judge, and how many are, while it runs
    done = models.PositiveIntegerField(default=0)
    red = models.BooleanField(null=True, blank=True)  # something was not as it must be; NULL until finished
    result: Any = models.JSONField(default=dict, blank=True)  # judge.selftest.results.Report
    message = models.TextField(blank=True)

    class Meta:
        ordering = ("-id",)
        constraints = [
            models.CheckConstraint(
                condition=Q(state="finished", red__isnull=False, finished_at__isnull=False) | ~Q(state="finished"),
                name="self_test_finished_has_a_result",
            ),
            models.UniqueConstraint(  # a second start while one is under way changes nothing
                fields=["device"], condition=Q(state__in=["queued", "running"]), name="self_test_one_at_a_time"
            ),
        ]
        indexes = [
            models.Index(fields=["device", "state", "-id"], name="self_test_last"),  # whether a device is trusted
        ]

    def __str__(self) -> str:
        return f"self-test {self.pk} of {self.device_id}: {self.state}"


class Measurement(models.Model):
    """Raw samples of one subject in one evaluation, with the summary that pages print."""

    evaluation = models.ForeignKey(Evaluation, on_delete=models.CASCADE, related_name="measurements")
    subject = models.CharField(max_length=12, choices=[(s.value, s.value) for s in Subject])
    basis = models.CharField(max_length=10, choices=[(b.value, b.value) for b in Basis])
    method = models.CharField(max_length=40)
    samples_us = models.JSONField(default=list)
    n = models.PositiveIntegerField()
    median_us = models.FloatField()
    low_us = models.FloatField()
    high_us = models.FloatField()
    detail = models.JSONField(default=dict, blank=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["evaluation", "subject"], name="measurement_one_per_subject"),
            models.CheckConstraint(
                condition=Q(low_us__lte=models.F("median_us")) & Q(median_us__lte=models.F("high_us")),
                name="measurement_interval_holds_median",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.subject} {self.median_us:.2f} µs ({self.basis})"
