"""The form that starts a campaign."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from django import forms

from judge.devices.models import Device
from judge.devices.queries import judging_devices
from search import proposers
from search.algorithm.presets import PRESELECTED, PRESETS, Preset, preset_get
from search.batches.campaign_problems import ProblemsField
from search.batches.campaigns import BY_HAND, MAX_AT_ONCE, MAX_PROBLEMS
from search.batches.models import Campaign
from search.proposers import Choice
from search.runs.forms import DialectFields
from search.runs.memory_fields import MemoryFields, placeholders
from search.runs.services import MAX_CONCURRENCY

STEPS_EACH = 20
USUAL: Mapping[str, Any] = {  # no default of the fields themselves: a program that leaves one out is told so
    "at_once": 1,
    "concurrency": 1,
    "seeds": Campaign.Seeds.SPREAD,
    "preset": PRESELECTED,
}
_SEED_LIMIT = 2**31 - 1


class CampaignForm(MemoryFields, DialectFields):
    """What all searches of a campaign share. The service checks again what depends on rows."""

    problem = ProblemsField(
        most=MAX_PROBLEMS,
        label="Problems",
        help_text="Slugs.",
        error_messages={"required": "No problem is chosen. Choose at least one, or change the filter."},
    )
    title = forms.CharField(max_length=160, required=False, label="Title")
    steps = forms.IntegerField(min_value=1, label="Steps, all problems together")
    at_once = forms.IntegerField(min_value=1, max_value=MAX_AT_ONCE, label="Searches at once")
    concurrency = forms.IntegerField(min_value=1, max_value=MAX_CONCURRENCY, label="Steps in flight of each")
    seed = forms.IntegerField(min_value=0, max_value=_SEED_LIMIT, required=False, label="Seed")
    seeds = forms.ChoiceField(
        choices=[(Campaign.Seeds.SPREAD, "Another for each problem"), (Campaign.Seeds.SAME, "The same for all")],
        label="Seeds",
    )
    preset = forms.ChoiceField(
        choices=[(preset.name, f"{preset.name}: {preset.title}") for preset in PRESETS.values()],
        label="Parameters",
    )
    device = forms.ChoiceField(label="Device")
    proposer = forms.ChoiceField(label="Proposer")

    def __init__(self, *args: Any, devices: Sequence[Device], choices: Sequence[Choice], **kwargs: Any) -> None:
        super().__init__(*args, **{**kwargs, "initial": {**USUAL, **(kwargs.get("initial") or {})}})
        self.label_suffix = ""
        self._devices = {device.name: device for device in devices}
        usable = [choice for choice in choices if choice.ready and choice.name not in BY_HAND]
        self._choice("device", [(device.name, f"{device.name} · {device.title}") for device in devices])
        self._choice("proposer", [(choice.name, choice.title) for choice in usable])
        for name in ("steps", "at_once", "concurrency", "seed"):
            self.fields[name].widget.attrs.update(inputmode="numeric", autocomplete="off")
        self.fields["seed"].widget.attrs.update(placeholder="random")
        self.fields["title"].widget.attrs.update(placeholder="optional", autocomplete="off")
        placeholders(self)

    def _choice(self, name: str, pairs: list[tuple[str, str]]) -> None:
        field = self.fields[name]
        assert isinstance(field, forms.ChoiceField)
        field.choices = pairs

    def clean(self) -> dict[str, Any]:
        """With `memory` and `options` as the service takes them."""
        data = super().clean() or {}
        return data if self.errors else {**data, "memory": self.memory(), "options": self.options()}

    def clean_device(self) -> Device:
        """The row behind the name."""
        return self._devices[self.cleaned_data["device"]]

    def clean_preset(self) -> Preset:
        """The preset behind the name."""
        return preset_get(self.cleaned_data["preset"])


def campaign_form(*args: Any, **kwargs: Any) -> CampaignForm:
    """The form with the devices and proposers that there are now."""
    return CampaignForm(*args, devices=list(judging_devices()), choices=proposers.available(), **kwargs)
