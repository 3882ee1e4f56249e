"""What was spent, added up as it is written: pages of money never walk over calls."""

from __future__ import annotations

from django.conf import settings
from django.db import models
from django.db.models import Q


class Spending(models.Model):
    """Calls and device time of one day, model and kind of call: of a search, or of an adapt run beside its searches.
    Written in the transaction of the call or verdict itself; every figure is the sum over those rows."""

    class Kind(models.TextChoices):
        LARGE = "large"
        SMALL = "small"
        AGAIN = "again"  # a step's second call, when the first reply could not be used
        STOPPED = "stopped"  # device time of evaluations that were stopped before their verdict
        RECHECK = "recheck"  # completed kernels judged once more, and raced
        TASK = "task"  # an adapt run's: a practice task was composed
        LESSON = "lesson"  # an adapt run's: a rule was worded

    run = models.ForeignKey("search.Run", null=True, blank=True, on_delete=models.CASCADE, related_name="spending")
    adapt = models.ForeignKey(
        "memory.AdaptRun", null=True, blank=True, on_delete=models.CASCADE, related_name="spending"
    )
    day = models.DateField()  # UTC
    model = models.CharField(max_length=120, blank=True)  # "" for what is not billed
    kind = models.CharField(max_length=8, choices=Kind.choices)
    calls = models.PositiveIntegerField(default=0)  # billed ones
    tokens_in = models.PositiveBigIntegerField(default=0)
    tokens_out = models.PositiveBigIntegerField(default=0)
    untold = models.PositiveIntegerField(default=0)  # calls without a count of tokens
    usd = models.DecimalField(max_digits=18, decimal_places=6, default=0)
    unpriced = models.PositiveIntegerField(default=0)  # calls without a price
    device_ms = models.FloatField(default=0.0)
    reused = models.PositiveIntegerField(default=0)  # verdicts that were known
    saved_ms = models.FloatField(default=0.0)  # what these had cost the first time

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["run", "day", "model", "kind"], name="spending_once"),
            models.UniqueConstraint(fields=["adapt", "day", "model", "kind"], name="spending_of_adapt_once"),
            models.CheckConstraint(
                condition=Q(run__isnull=False, adapt__isnull=True) | Q(run__isnull=True, adapt__isnull=False),
                name="spending_of_one",
            ),
        ]
        indexes = [models.Index(fields=["day"], name="spending_day")]  # the page of spending over a period

    def __str__(self) -> str:
        whose = f"run {self.run_id}" if self.run_id else f"adapt run {self.adapt_id}"
        return f"{whose} {self.day} {self.model} {self.kind}"


class SpendBudget(models.Model):
    """What all searches together may cost in a day and in a month (UTC). Never edited: the newest row holds."""

    day_usd = models.DecimalField(max_digits=12, decimal_places=2, null=True, blank=True)
    month_usd = models.DecimalField(max_digits=12, decimal_places=2, null=True, blank=True)
    alert_percent = models.PositiveSmallIntegerField(default=80)
    pauses = models.BooleanField(default=False)  # a passed budget pauses what pays
    set_by = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, blank=True, on_delete=models.SET_NULL)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ("-id",)

    def __str__(self) -> str:
        return f"budget {self.pk}"


class ModelPrice(models.Model):
    """A price that a person gave to a model. Calls from its day on take it; those before keep theirs."""

    model = models.CharField(max_length=120)
    usd_per_m_in = models.DecimalField(max_digits=14, decimal_places=6)
    usd_per_m_out = models.DecimalField(max_digits=14, decimal_places=6)
    valid_from = models.DateField()
    source = models.CharField(max_length=200, blank=True)  # where it was read
    set_by = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, blank=True, on_delete=models.SET_NULL)
    created_at = models.DateTimeField(auto_now_add=True)
    withdrawn_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ("id",)

    def __str__(self) -> str:
        return f"price of {self.model} from {self.valid_from}"
