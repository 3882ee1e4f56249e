"""The form that starts a campaign."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django import forms

from judge.models import Device
from search.algorithm.presets import PRESELECTED, PRESETS, Preset, preset_get
from search.campaign_models import Campaign
from search.dialect_fields import DialectFields
from search.memory_fields import MemoryFields, placeholders
from search.proposers import Choice
from search.services.campaigns import BY_HAND, MAX_AT_ONCE
from search.services.runs import MAX_CONCURRENCY

STEPS_EACH = 20
_SEED_LIMIT = 2**31 - 1


class CampaignForm(MemoryFields, DialectFields):
    """What all searches of a campaign share. The service checks again what depends on rows."""

    title = forms.CharField(max_length=160, required=False, label="Title")
    steps = forms.IntegerField(min_value=1, label="Steps, all problems together")
    at_once = forms.IntegerField(min_value=1, max_value=MAX_AT_ONCE, initial=1, label="Searches at once")
    concurrency = forms.IntegerField(min_value=1, max_value=MAX_CONCURRENCY, initial=1, label="Steps in flight of each")
    seed = forms.IntegerField(min_value=0, max_value=_SEED_LIMIT, required=False, label="Seed")
    seeds = forms.ChoiceField(
        choices=[(Campaign.Seeds.SPREAD, "Another for each problem"), (Campaign.Seeds.SAME, "The same for all")],
        initial=Campaign.Seeds.SPREAD,
        label="Seeds",
    )
    preset = forms.ChoiceField(
        choices=[(preset.name, f"{preset.name}: {preset.title}") for preset in PRESETS.values()],
        initial=PRESELECTED,
        label="Parameters",
    )
    device = forms.ChoiceField(label="Device")
    proposer = forms.ChoiceField(label="Proposer")

    def __init__(self, *args: Any, devices: Sequence[Device], choices: Sequence[Choice], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
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

    def clean_device(self) -> Device:
        """The row behind the name."""
        return self._devices[self.cleaned_data["device"]]

    def clean_preset(self) -> Preset:
        """The preset behind the name."""
        return preset_get(self.cleaned_data["preset"])
