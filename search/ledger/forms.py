"""The forms of limits, of the budget of all searches, and of prices."""

from __future__ import annotations

from typing import Any

from django import forms
from django.utils.translation import gettext_lazy as _

from search.ledger.limits import LONGEST
from search.ledger.models import SpendBudget


class BudgetForm(forms.Form):
    """An empty amount is no budget."""

    day_usd = forms.DecimalField(
        min_value=0,
        max_digits=12,
        decimal_places=2,
        required=False,
        label=_("Daily budget (US$)"),
        help_text=_("UTC. Leave empty for no budget."),
    )
    month_usd = forms.DecimalField(
        min_value=0,
        max_digits=12,
        decimal_places=2,
        required=False,
        label=_("Monthly budget (US$)"),
        help_text=_("Leave empty for no budget."),
    )
    alert_percent = forms.IntegerField(
        min_value=1,
        max_value=100,
        label=_("Alert at (%)"),
        help_text=_("Of either budget; shown in the bar and in notifications."),
    )
    pauses = forms.BooleanField(required=False, label=_("Pause paid searches when the budget is exceeded"))

    @classmethod
    def of(cls, budget: SpendBudget | None) -> BudgetForm:
        """With what holds."""
        if budget is None:
            return cls(initial={"alert_percent": 80})
        names = ("day_usd", "month_usd", "alert_percent", "pauses")
        return cls(initial={name: getattr(budget, name) for name in names})


class PriceForm(forms.Form):
    """US dollars for a million tokens."""

    model = forms.CharField(
        max_length=120,
        label=_("Model"),
        help_text=_("As named in its calls."),
        widget=forms.TextInput(attrs={"list": "priceless", "autocomplete": "off"}),
    )
    usd_per_m_in = forms.DecimalField(min_value=0, decimal_places=6, label=_("US$ per million in"))
    usd_per_m_out = forms.DecimalField(min_value=0, decimal_places=6, label=_("US$ per million out"))
    source = forms.CharField(max_length=200, required=False, label=_("Source"), help_text=_("Stored with the price."))


MINUTE_S = 60
RENAMED = {"device_s": "device_minutes", "wall_s": "wall_minutes", "roofline_share": "roofline_percent"}  # other units


class LimitFields(forms.Form):
    """An empty field is no limit. `limits()` gives what was filled in by the names of RunLimits."""

    evaluations = forms.IntegerField(
        min_value=1,
        required=False,
        label=_("Evaluations"),
        help_text=_("On the device; reused verdicts are not counted."),
    )
    device_minutes = forms.FloatField(
        min_value=0.05,
        required=False,
        label=_("Device minutes"),
        help_text=_("Time of the device's worker (GPU time)."),
    )
    tokens = forms.IntegerField(
        min_value=1, required=False, label=_("Tokens"), help_text=_("Input and output of all calls.")
    )
    usd = forms.DecimalField(
        min_value=0, decimal_places=6, required=False, label=_("Money (US$)"), help_text=_("Requires a known price.")
    )
    wall_minutes = forms.FloatField(
        min_value=0.05, required=False, label=_("Wall-clock minutes"), help_text=_("From the start, including pauses.")
    )
    stale_steps = forms.IntegerField(
        min_value=1,
        max_value=LONGEST,
        required=False,
        label=_("Attempts without a new best"),
        help_text=_("Then the search ends."),
    )
    target_speedup = forms.FloatField(
        min_value=0.01, required=False, label=_("Target speedup"), help_text=_("Ends when the audited best reaches it.")
    )
    roofline_percent = forms.FloatField(
        min_value=1,
        max_value=100,
        required=False,
        label=_("Share of the roofline (%)"),
        help_text=_("Ends when reached."),
    )
    step_device_s = forms.FloatField(
        min_value=0.001,
        required=False,
        label=_("Device seconds held for a step"),
        help_text=_("Released when it completes."),
    )
    step_tokens = forms.IntegerField(
        min_value=1, required=False, label=_("Tokens held for a step"), help_text=_("Maximum that a step may need.")
    )
    step_usd = forms.DecimalField(
        min_value=0,
        decimal_places=6,
        required=False,
        label=_("Money held for a step"),
        help_text=_("Empty: from the price."),
    )

    def limit_rows(self) -> list[forms.BoundField]:
        """The fields in order, for the page."""
        return [self[name] for name in LimitFields.base_fields]

    def limits_touched(self) -> bool:
        """Whether any of them, or how many steps go at once, was filled in: then the page shows them open."""
        folded = (*LimitFields.base_fields, "concurrency")
        return any(self.data.get(name) for name in folded) if self.is_bound else False

    def limits(self) -> dict[str, Any]:
        """What was filled in, in the units of RunLimits. Call it on a valid form."""
        given = {name: self.cleaned_data.get(name) for name in LimitFields.base_fields}
        minutes = {"device_s": given.pop("device_minutes"), "wall_s": given.pop("wall_minutes")}
        percent = given.pop("roofline_percent")
        given |= {name: value * MINUTE_S for name, value in minutes.items() if value is not None}
        if percent is not None:
            given["roofline_share"] = percent / 100
        return {name: value for name, value in given.items() if value is not None}
