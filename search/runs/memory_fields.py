"""What a search takes from memory and gives to it: fields of a form, and options of a command."""

from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Mapping
from typing import Any

from django import forms
from django.utils.translation import gettext_lazy as _

from memory.prompting.choices import MemoryChoice

OFF = "off"
USES = (
    ("reviewed", _("Approved rules")),
    ("auto", _("Approved rules, and proposed ones with enough support")),
    (OFF, _("No rules")),
)
_DEFAULT = MemoryChoice()
FOLDED = ("rule_threshold", "rule_tokens", "rule_withhold")
MODES = ("off", "reviewed", "auto")


class MemoryFields(forms.Form):
    """An empty field takes its default. `memory()` gives the choice."""

    rules = forms.ChoiceField(
        choices=USES,
        initial=_DEFAULT.trust,
        required=False,
        label=_("Rules in prompts"),
        help_text=_("Which rules learned from earlier failures go into the prompts of this search."),
        error_messages={"invalid_choice": _("Choose one of: reviewed, auto, off.")},
    )
    learns = forms.BooleanField(
        required=False,
        label=_("Learn from its failures"),
        help_text=_("They propose rules; a reviewer decides on them."),
    )
    rule_threshold = forms.IntegerField(
        min_value=1,
        max_value=1000,
        required=False,
        label=_("Problems behind a rule"),
        help_text=_("How many problems must show a failure before it becomes a rule."),
    )
    rule_tokens = forms.IntegerField(
        min_value=0,
        max_value=100_000,
        required=False,
        label=_("Tokens for rules"),
        help_text=_("Maximum in a prompt, estimated from the length."),
    )
    rule_withhold = forms.FloatField(
        min_value=0,
        max_value=100,
        required=False,
        label=_("Withheld (%)"),
        help_text=_("How often a rule is withheld, to measure its effect."),
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


def memory_arguments(parser: ArgumentParser) -> None:
    """Add them to a parser."""
    group = parser.add_argument_group("memory")
    group.add_argument(
        "--memory",
        default=_DEFAULT.trust,
        choices=MODES,
        help="rules in prompts: approved ones (reviewed), proposed ones with enough support too (auto), or none (off)",
    )
    group.add_argument("--learn", action="store_true", help="its failures propose rules")
    group.add_argument("--rule-threshold", type=int, default=_DEFAULT.threshold, help="problems behind a rule")
    group.add_argument("--rule-tokens", type=int, default=_DEFAULT.budget_tokens, help="room for rules in a prompt")
    group.add_argument("--rule-withhold", type=float, default=_DEFAULT.withhold, help="probability of leaving one out")


def memory_chosen(options: Mapping[str, Any]) -> MemoryChoice:
    """The choice in parsed options. Raises ValueError with a sentence."""
    uses = options["memory"] != "off"
    return MemoryChoice(
        uses=uses,
        learns=options["learn"],
        trust=options["memory"] if uses else _DEFAULT.trust,
        threshold=options["rule_threshold"],
        budget_tokens=options["rule_tokens"],
        withhold=options["rule_withhold"],
    )
