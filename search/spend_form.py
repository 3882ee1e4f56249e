"""The forms of the page of spending: the budget of all searches, and a price for a model that has none."""

from __future__ import annotations

from django import forms

from search.models import SpendBudget


class BudgetForm(forms.Form):
    """An empty amount is no budget."""

    day_usd = forms.DecimalField(
        min_value=0, max_digits=12, decimal_places=2, required=False, label="A day (US$)", help_text="UTC; empty: none."
    )
    month_usd = forms.DecimalField(
        min_value=0, max_digits=12, decimal_places=2, required=False, label="A month (US$)", help_text="Empty: none."
    )
    alert_percent = forms.IntegerField(
        min_value=1, max_value=100, label="Alert at (%)", help_text="Of either, in the bar and in notifications."
    )
    pauses = forms.BooleanField(required=False, label="Pause searches that pay once it is passed")

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
        help_text="As its calls name it.",
        widget=forms.TextInput(attrs={"list": "priceless", "autocomplete": "off"}),
    )
    usd_per_m_in = forms.DecimalField(min_value=0, decimal_places=6, label="US$ per million in")
    usd_per_m_out = forms.DecimalField(min_value=0, decimal_places=6, label="US$ per million out")
    source = forms.CharField(max_length=200, required=False, label="Where it was read", help_text="Kept with it.")
