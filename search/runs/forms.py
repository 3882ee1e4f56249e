"""The form that starts a search."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django import forms
from django.utils.text import format_lazy
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from adaexplore_site.actions.action import ActionForm
from judge.devices.models import Device
from judge.problems.models import Problem
from search.algorithm.params import PRESELECTED, PRESETS, Preset, preset_get
from search.ledger.forms import LimitFields
from search.ledger.limits import MAX_STEPS
from search.proposers import Choice
from search.runs.memory_fields import MemoryFields, placeholders
from search.runs.services import MAX_CONCURRENCY

DEFAULT_STEPS = 30
_SEED_LIMIT = 2**31 - 1


class StartForm(ActionForm, LimitFields, MemoryFields):
    """What a search is started with. The service checks what depends on rows."""

    problem = forms.CharField(
        max_length=120,
        widget=forms.HiddenInput,
        help_text=_("slug"),
        error_messages={"required": _("Choose a problem.")},
    )
    steps = forms.IntegerField(min_value=1, max_value=MAX_STEPS, initial=DEFAULT_STEPS, label=_("Steps"))
    seed = forms.IntegerField(min_value=0, max_value=_SEED_LIMIT, required=False, label=_("Seed"))
    device = forms.CharField(max_length=60)
    proposer = forms.CharField(max_length=20)
    preset = forms.ChoiceField(
        choices=[(preset.name, f"{preset.name}: {preset.title}") for preset in PRESETS.values()],
        initial=PRESELECTED,
        required=False,
        label=_("Settings"),
        help_text=_("Published settings were tested with language models, ours only in simulations (see Lab)."),
        error_messages={
            "invalid_choice": format_lazy(
                _("There is no such preset. Choose one of: {names}."), names=", ".join(PRESETS)
            )
        },
    )
    title = forms.CharField(max_length=160, required=False, label=_("Title"))
    concurrency = forms.IntegerField(
        min_value=1,
        max_value=MAX_CONCURRENCY,
        required=False,
        label=_("In flight at once"),
        help_text=_("Steps are written while others are judged."),
    )

    def __init__(self, *args: Any, devices: Sequence[Device], choices: Sequence[Choice], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.label_suffix = ""
        self._devices = {device.name: device for device in devices}
        self._choices = {choice.name: choice for choice in choices}
        for name, empty in (("steps", ""), ("seed", gettext("random")), ("concurrency", "1")):
            shown = {"placeholder": empty} if empty else {}
            self.fields[name].widget.attrs.update(**shown, inputmode="numeric", autocomplete="off")
        for name in LimitFields.base_fields:
            empty = gettext("automatic") if name.startswith("step_") else gettext("no limit")
            self.fields[name].widget.attrs.update(placeholder=empty, autocomplete="off")
        self.fields["title"].widget.attrs.update(placeholder=gettext("optional"), autocomplete="off")
        placeholders(self)

    def clean(self) -> dict[str, Any]:
        """With `limits` and `memory` as the service takes them, unless a field is wrong."""
        data: dict[str, Any] = super().clean() or self.cleaned_data
        return data if self.errors else {**data, "limits": self.limits(), "memory": self.memory()}

    def clean_problem(self) -> Problem:
        """The row behind the slug."""
        problem = Problem.objects.filter(slug=self.cleaned_data["problem"]).first()
        if problem is None:
            raise forms.ValidationError(gettext("There is no such problem. Upload it, or choose another one."))
        return problem

    def clean_preset(self) -> Preset:
        """The preset behind the name; what asks for none gets the one that is preselected."""
        return preset_get(self.cleaned_data["preset"] or PRESELECTED)

    def clean_device(self) -> Device:
        """The row behind the name."""
        device = self._devices.get(self.cleaned_data["device"])
        if device is None:
            known = ", ".join(self._devices) or gettext("none")
            raise forms.ValidationError(
                gettext("There is no such device here. Choose one of: %(known)s.") % {"known": known}
            )
        return device

    def clean_proposer(self) -> str:
        """A proposer that can be used now."""
        choice = self._choices.get(self.cleaned_data["proposer"])
        if choice is None:
            raise forms.ValidationError(gettext("Choose one of: %(names)s.") % {"names": ", ".join(self._choices)})
        if not choice.ready:
            raise forms.ValidationError(choice.why_not)
        return choice.name
