"""The forms of the page of spending: the budget of all searches, and a price for a model."""

from __future__ import annotations

from django import forms

from search.ledger.models import SpendBudget


class BudgetForm(forms.Form):
    """An empty amount is no budget."""

    day_usd = forms.DecimalField(
        min_value=0,
        max_digits=12,
        decimal_places=2,
        required=False,
        label="Daily budget (US$)",
        help_text="UTC. Leave empty for no budget.",
    )
    month_usd = forms.DecimalField(
        min_value=0,
        max_digits=12,
        decimal_places=2,
        required=False,
        label="Monthly budget (US$)",
        help_text="Leave empty for no budget.",
    )
    alert_percent = forms.IntegerField(
        min_value=1,
        max_value=100,
        label="Alert at (%)",
        help_text="Of either budget; shown in the bar and in notifications.",
    )
    pauses = forms.BooleanField(required=False, label="Pause paid searches when the budget is exceeded")

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
        label="Model",
        help_text="As named in its calls.",
        widget=forms.TextInput(attrs={"list": "priceless", "autocomplete": "off"}),
    )
    usd_per_m_in = forms.DecimalField(min_value=0, decimal_places=6, label="US$ per million in")
    usd_per_m_out = forms.DecimalField(min_value=0, decimal_places=6, label="US$ per million out")
    source = forms.CharField(max_length=200, required=False, label="Source", help_text="Stored with the price.")
