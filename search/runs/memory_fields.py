"""The form fields of memory: what a search takes from it and gives to it. Shared by single searches and campaigns."""

from __future__ import annotations

from typing import Any

from django import forms

from memory.prompting.choices import MemoryChoice

OFF = "off"
USES = (
    ("reviewed", "Approved rules"),
    ("auto", "Approved rules, and proposed ones with enough support"),
    (OFF, "No rules"),
)
_DEFAULT = MemoryChoice()
FOLDED = ("rule_threshold", "rule_tokens", "rule_withhold")


class MemoryFields(forms.Form):
    """An empty field takes its default. `memory()` gives the choice."""

    rules = forms.ChoiceField(
        choices=USES,
        initial=_DEFAULT.trust,
        required=False,
        label="Rules in prompts",
        help_text="Which of what was learned from earlier failures goes into the prompts of this search.",
        error_messages={"invalid_choice": "Choose one of: reviewed, auto, off."},
    )
    learns = forms.BooleanField(
        required=False, label="Learn from its failures", help_text="They propose rules; a reviewer decides on them."
    )
    rule_threshold = forms.IntegerField(
        min_value=1,
        max_value=1000,
        required=False,
        label="Problems behind a rule",
        help_text="A rule learned here needs failures on so many problems.",
    )
    rule_tokens = forms.IntegerField(
        min_value=0,
        max_value=100_000,
        required=False,
        label="Tokens for rules",
        help_text="Room in a prompt, estimated from the length.",
    )
    rule_withhold = forms.FloatField(
        min_value=0,
        max_value=100,
        required=False,
        label="Withheld (%)",
        help_text="How often a rule is left out, to see what it changes.",
    )

    def memory_rows(self) -> list[forms.BoundField]:
        """The folded fields in order, for the page."""
        return [self[name] for name in FOLDED]

    def memory_touched(self) -> bool:
        """Whether a folded field was filled in: then the page shows them open."""
        return self.is_bound and any(self.data.get(name) for name in FOLDED)

    def memory(self) -> MemoryChoice:
        """The choice. Call it on a valid form."""
        data = self.cleaned_data
        given: dict[str, Any] = {"threshold": data["rule_threshold"], "budget_tokens": data["rule_tokens"]}
        if data["rule_withhold"] is not None:
            given["withhold"] = data["rule_withhold"] / 100
        rules = data["rules"] or _DEFAULT.trust
        if rules != OFF:
            given["trust"] = rules
        kept = {name: value for name, value in given.items() if value is not None}
        return MemoryChoice(uses=rules != OFF, learns=data["learns"], **kept)


def placeholders(form: forms.Form) -> None:
    """Show the defaults in the empty folded fields."""
    shown = (_DEFAULT.threshold, _DEFAULT.budget_tokens, f"{_DEFAULT.withhold:.0%}".rstrip("%"))
    for name, value in zip(FOLDED, shown, strict=True):
        form.fields[name].widget.attrs.update(placeholder=str(value), inputmode="decimal", autocomplete="off")
