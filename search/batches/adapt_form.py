"""The forms that start an adapt run, and its transfer to given problems."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from django import forms

from adaexplore_site.actions.action import ActionForm
from adaexplore_site.core.llm import endpoint_from_settings
from judge.devices.models import Device
from judge.devices.services import judging_devices
from memory.prompting.choices import MemoryChoice
from search import proposers
from search.algorithm.params import PRESETS, Preset, preset_get
from search.batches.adapt_runs import CONTROL_STEPS, MAX_TASKS
from search.batches.adapt_spending import NAMES
from search.batches.campaign_problems import ProblemsField
from search.batches.campaigns import BY_HAND, MAX_AT_ONCE
from search.proposers import Choice
from search.runs.services import MAX_CONCURRENCY, MAX_STEPS

_SEED_LIMIT = 2**31 - 1
USUAL: Mapping[str, Any] = {  # no default of the fields themselves: a program that leaves one out is told so
    "tasks": 60,
    "steps": 25,
    "control_steps": CONTROL_STEPS,
    "preset": "adapt",
    "trust": "auto",
    "threshold": MemoryChoice().threshold,
    "at_once": 1,
    "concurrency": 1,
}
_LIMITS = {
    "tokens": "Tokens",
    "usd": "US dollars",
    "device_s": "Device seconds",
    "wall_s": "Seconds from start",
}


class AdaptForm(forms.Form):
    """What all tasks of an adapt run share. The service checks again what depends on rows."""

    title = forms.CharField(max_length=160, required=False, label="Title")
    tasks = forms.IntegerField(min_value=1, max_value=MAX_TASKS, label="Tasks")
    steps = forms.IntegerField(min_value=1, label="Steps on each")
    control_steps = forms.IntegerField(min_value=0, label="Steps without memory")
    composer = forms.ChoiceField(
        choices=[("builtin", "Built-in composer"), ("model", "Language model")], label="Tasks written by"
    )
    device = forms.ChoiceField(label="Device")
    proposer = forms.ChoiceField(label="Proposer")
    preset = forms.ChoiceField(
        choices=[(preset.name, f"{preset.name}: {preset.title}") for preset in PRESETS.values()],
        label="Parameters",
    )
    trust = forms.ChoiceField(
        choices=[("auto", "proposed, too"), ("reviewed", "approved only")],
        label="Rules used",
    )
    threshold = forms.IntegerField(min_value=1, max_value=1000, label="Problems behind a rule")
    seed = forms.IntegerField(min_value=0, max_value=_SEED_LIMIT, required=False, label="Seed")
    at_once = forms.IntegerField(min_value=1, max_value=MAX_AT_ONCE, label="Tasks at once")
    concurrency = forms.IntegerField(min_value=1, max_value=MAX_CONCURRENCY, label="Steps in flight of each")
    tokens = forms.CharField(max_length=20, required=False, label=_LIMITS["tokens"])
    usd = forms.CharField(max_length=20, required=False, label=_LIMITS["usd"])
    device_s = forms.CharField(max_length=20, required=False, label=_LIMITS["device_s"])
    wall_s = forms.CharField(max_length=20, required=False, label=_LIMITS["wall_s"])

    def __init__(
        self, *args: Any, devices: Sequence[Device], choices: Sequence[Choice], model_ready: bool, **kwargs: Any
    ) -> None:
        super().__init__(*args, **{**kwargs, "initial": {**USUAL, **(kwargs.get("initial") or {})}})
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

    def clean(self) -> dict[str, Any]:
        """With `limits`, those that were given."""
        data = super().clean() or {}
        return {**data, "limits": {name: data[name] for name in NAMES if data.get(name)}}

    def clean_device(self) -> Device:
        """The row behind the name."""
        return self._devices[self.cleaned_data["device"]]

    def clean_preset(self) -> Preset:
        """The preset behind the name."""
        return preset_get(self.cleaned_data["preset"])


class TransferForm(ActionForm):
    """The problems to search with what an adapt run has learned, and without it."""

    problem = ProblemsField(
        most=MAX_TASKS,
        label="Problems",
        help_text="Slugs.",
        error_messages={"required": "No problem is chosen. Choose at least one."},
    )
    steps = forms.IntegerField(min_value=1, max_value=MAX_STEPS, label="Steps on each")


def adapt_form(*args: Any, **kwargs: Any) -> AdaptForm:
    """The form with the devices, proposers and composers that there are now."""
    ready = not endpoint_from_settings().missing()
    return AdaptForm(*args, devices=list(judging_devices()), choices=proposers.available(), model_ready=ready, **kwargs)
