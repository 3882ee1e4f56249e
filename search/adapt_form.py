"""The forms that start an adapt run, and its transfer to given problems."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django import forms

from judge.models import Device
from memory.choices import MemoryChoice
from search.algorithm.presets import PRESETS, Preset, preset_get
from search.proposers import Choice
from search.services.adapt_runs import CONTROL_STEPS, MAX_TASKS
from search.services.adapt_spending import NAMES
from search.services.campaigns import BY_HAND, MAX_AT_ONCE
from search.services.runs import MAX_CONCURRENCY

_SEED_LIMIT = 2**31 - 1
_USUAL = MemoryChoice()
_LIMITS = {
    "tokens": "Tokens",
    "usd": "US dollars",
    "device_s": "Device seconds",
    "wall_s": "Seconds from start",
}


class AdaptForm(forms.Form):
    """What all tasks of an adapt run share. The service checks again what depends on rows."""

    title = forms.CharField(max_length=160, required=False, label="Title")
    tasks = forms.IntegerField(min_value=1, max_value=MAX_TASKS, initial=60, label="Tasks")
    steps = forms.IntegerField(min_value=1, initial=25, label="Steps on each")
    control_steps = forms.IntegerField(min_value=0, initial=CONTROL_STEPS, label="Steps without memory")
    composer = forms.ChoiceField(
        choices=[("builtin", "Built-in composer"), ("model", "Language model")], label="Tasks written by"
    )
    device = forms.ChoiceField(label="Device")
    proposer = forms.ChoiceField(label="Proposer")
    preset = forms.ChoiceField(
        choices=[(preset.name, f"{preset.name}: {preset.title}") for preset in PRESETS.values()],
        initial="adapt",
        label="Parameters",
    )
    trust = forms.ChoiceField(
        choices=[("auto", "proposed, too"), ("reviewed", "approved only")],
        initial="auto",
        label="Rules used",
    )
    threshold = forms.IntegerField(
        min_value=1, max_value=1000, initial=_USUAL.threshold, label="Problems behind a rule"
    )
    seed = forms.IntegerField(min_value=0, max_value=_SEED_LIMIT, required=False, label="Seed")
    at_once = forms.IntegerField(min_value=1, max_value=MAX_AT_ONCE, initial=1, label="Tasks at once")
    concurrency = forms.IntegerField(min_value=1, max_value=MAX_CONCURRENCY, initial=1, label="Steps in flight of each")
    tokens = forms.CharField(max_length=20, required=False, label=_LIMITS["tokens"])
    usd = forms.CharField(max_length=20, required=False, label=_LIMITS["usd"])
    device_s = forms.CharField(max_length=20, required=False, label=_LIMITS["device_s"])
    wall_s = forms.CharField(max_length=20, required=False, label=_LIMITS["wall_s"])

    def __init__(
        self, *args: Any, devices: Sequence[Device], choices: Sequence[Choice], model_ready: bool, **kwargs: Any
    ) -> None:
        super().__init__(*args, **kwargs)
        self.label_suffix = ""
        self._devices = {device.name: device for device in devices}
        usable = [choice for choice in choices if choice.ready and choice.name not in BY_HAND]
        self._choice("device", [(device.name, f"{device.name} · {device.title}") for device in devices])
        self._choice("proposer", [(choice.name, choice.title) for choice in usable])
        if not model_ready:
            self._choice("composer", [("builtin", "Built-in composer")])
        for name in ("tasks", "steps", "control_steps", "threshold", "at_once", "concurrency", "seed", *NAMES):
            self.fields[name].widget.attrs.update(inputmode="numeric", autocomplete="off")
        for name in NAMES:
            self.fields[name].widget.attrs.update(placeholder="no limit")
        self.fields["seed"].widget.attrs.update(placeholder="random")
        self.fields["title"].widget.attrs.update(placeholder="optional", autocomplete="off")

    def _choice(self, name: str, pairs: list[tuple[str, str]]) -> None:
        field = self.fields[name]
        assert isinstance(field, forms.ChoiceField)
        field.choices = pairs

    def clean_device(self) -> Device:
        """The row behind the name."""
        return self._devices[self.cleaned_data["device"]]

    def clean_preset(self) -> Preset:
        """The preset behind the name."""
        return preset_get(self.cleaned_data["preset"])

    @property
    def limits(self) -> dict[str, str]:
        """The limits that were given."""
        return {name: self.cleaned_data[name] for name in NAMES if self.cleaned_data[name]}
