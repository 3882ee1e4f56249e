"""What was spent, added up as it is written: pages of money never walk over calls."""

from __future__ import annotations

from django.db import models


class Spending(models.Model):
    """A search's calls and device time of one day, model and kind of call. Written under the run's row lock, in the
    transaction of the call or verdict itself; every figure is the sum over those rows."""

    class Kind(models.TextChoices):
        LARGE = "large"
        SMALL = "small"
        AGAIN = "again"  # a step's second call, when the first reply could not be used

    run = models.ForeignKey("search.Run", on_delete=models.CASCADE, related_name="spending")
    day = models.DateField()  # UTC
    model = models.CharField(max_length=120, blank=True)  # "" where nobody bills
    kind = models.CharField(max_length=6, choices=Kind.choices)
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
        ]
        indexes = [models.Index(fields=["day"], name="spending_day")]  # the page of spending over a period

    def __str__(self) -> str:
        return f"run {self.run_id} {self.day} {self.model} {self.kind}"
