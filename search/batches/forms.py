"""Which problems a batch takes, and the forms that start a campaign, an adapt run, and a transfer."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from django import forms
from django.db.models import Q

from adaexplore_site.actions.action import ActionForm
from adaexplore_site.actions.fields import TextListField
from adaexplore_site.core.llm import endpoint_from_settings
from judge.devices.models import Device
from judge.devices.services import judging_devices
from judge.problems.models import Problem
from memory.prompting.choices import MemoryChoice
from search import proposers
from search.algorithm.params import PRESELECTED, PRESETS, Preset, preset_get
from search.batches.adapt_budget import NAMES
from search.batches.adapts import CONTROL_STEPS, MAX_TASKS
from search.batches.campaigns import MAX_PROBLEMS
from search.batches.engine import BY_HAND, MAX_AT_ONCE
from search.batches.models import Campaign
from search.runs.memory_fields import MemoryFields, placeholders
from search.runs.services import MAX_CONCURRENCY, MAX_STEPS

STEPS_EACH = 20
_SEED_LIMIT = 2**31 - 1
_BUILTIN = ("builtin", "Built-in composer")


@dataclass(frozen=True)
class Filter:
    """Empty fields filter nothing. `level` is a folder's name such as level2, or its number."""

    level: str = ""
    state: str = ""
    origin: str = ""
    q: str = ""

    @property
    def empty(self) -> bool:
        return not (self.level or self.state or self.origin or self.q)


def filtered(chosen: Filter) -> list[Problem]:
    """Problems that match, without sources, in numeric order of level and title; composed ones by their origin only."""
    rows = Problem.objects.defer("source", "description")
    if chosen.level:
        rows = rows.filter(Q(level__iexact=chosen.level) | Q(level__iregex=rf"^level[\s_-]?{re.escape(chosen.level)}$"))
    if chosen.state:
        rows = rows.filter(state=chosen.state)
    rows = rows.filter(origin=chosen.origin) if chosen.origin else rows.exclude(origin=Problem.Origin.SYNTHETIC)
    if chosen.q:
        rows = rows.filter(Q(title__icontains=chosen.q) | Q(slug__icontains=chosen.q))
    return in_order(rows)


def by_slugs(slugs: Iterable[str]) -> tuple[list[Problem], list[str]]:
    """(problems in the order given, slugs that no problem has)."""
    wanted = list(dict.fromkeys(slugs))
    rows = {problem.slug: problem for problem in Problem.objects.defer("source", "description").filter(slug__in=wanted)}
    return [rows[slug] for slug in wanted if slug in rows], [slug for slug in wanted if slug not in rows]


def in_order(problems: Iterable[Problem]) -> list[Problem]:
    """`L2 9 ...` before `L2 10 ...`."""
    return sorted(problems, key=lambda one: (_number(one.level), _natural(one.title), one.slug))


def levels() -> list[str]:
    """The levels there are, in numeric order."""
    found = Problem.objects.exclude(level="").order_by().values_list("level", flat=True).distinct()
    return sorted(found, key=lambda level: (_number(level), level))


def _number(level: str) -> int:
    found = re.search(r"\d+", level)
    return int(found[0]) if found else 1 << 30


def _natural(text: str) -> list[tuple[int, int, str]]:
    """Digits by their value, words by their letters."""
    return [(0, int(part), "") if part.isdigit() else (1, 0, part.lower()) for part in re.findall(r"\d+|\D+", text)]


class ProblemsField(TextListField):
    """Slugs of problems. `clean` gives the rows, without sources, in the order given."""

    def __init__(self, *, most: int, none: str) -> None:
        super().__init__(label="Problems", help_text="Slugs.", error_messages={"required": none})
        self.most = most

    def clean(self, value: Any) -> list[Problem]:  # type: ignore[override]
        """Raises ValidationError for none, for more than `most`, and for a slug that no problem has."""
        slugs = list(dict.fromkeys(slug[:80] for slug in super().clean(value)))
        if len(slugs) > self.most:
            raise forms.ValidationError(f"Choose up to {self.most} problems; these are {len(slugs)}.")
        problems, missing = by_slugs(slugs)
        if missing:
            raise forms.ValidationError(f"There is no problem {missing[0]!r} any more. Choose again.")
        return problems


class BatchForm(forms.Form):
    """What every batch is started with. The service checks again what depends on rows.

    `USUAL` is filled in on the page. It is no default: a program that leaves a field out gets an error.
    """

    USUAL: ClassVar[Mapping[str, Any]] = {"at_once": 1, "concurrency": 1, "preset": PRESELECTED}

    title = forms.CharField(max_length=160, required=False, label="Title")
    at_once = forms.IntegerField(min_value=1, max_value=MAX_AT_ONCE, label="Searches at once")
    concurrency = forms.IntegerField(min_value=1, max_value=MAX_CONCURRENCY, label="Steps in flight per search")
    seed = forms.IntegerField(min_value=0, max_value=_SEED_LIMIT, required=False, label="Seed")
    preset = forms.ChoiceField(
        choices=[(preset.name, f"{preset.name}: {preset.title}") for preset in PRESETS.values()],
        label="Parameters",
    )
    device = forms.ChoiceField(label="Device")
    proposer = forms.ChoiceField(label="Proposer")

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **{**kwargs, "initial": {**self.USUAL, **(kwargs.get("initial") or {})}})
        self.label_suffix = ""
        self._devices = {device.name: device for device in judging_devices()}
        usable = [choice for choice in proposers.available() if choice.ready and choice.name not in BY_HAND]
        self._choose("device", [(device.name, f"{device.name} · {device.title}") for device in self._devices.values()])
        self._choose("proposer", [(choice.name, choice.title) for choice in usable])
        for name, field in self.fields.items():
            if isinstance(field, forms.IntegerField) or name in NAMES:
                field.widget.attrs.update(inputmode="numeric", autocomplete="off")
        self.fields["seed"].widget.attrs.update(placeholder="random")
        self.fields["title"].widget.attrs.update(placeholder="optional", autocomplete="off")

    def _choose(self, name: str, pairs: Sequence[tuple[str, str]]) -> None:
        field = self.fields[name]
        assert isinstance(field, forms.ChoiceField)
        field.choices = pairs

    def clean_device(self) -> Device:
        """The row behind the name."""
        return self._devices[self.cleaned_data["device"]]

    def clean_preset(self) -> Preset:
        """The preset behind the name."""
        return preset_get(self.cleaned_data["preset"])


class CampaignForm(BatchForm, MemoryFields):
    """What all searches of a campaign share."""

    USUAL = {**BatchForm.USUAL, "seeds": Campaign.Seeds.SPREAD}

    problem = ProblemsField(most=MAX_PROBLEMS, none="No problem is chosen. Choose at least one, or change the filter.")
    steps = forms.IntegerField(min_value=1, label="Steps, all problems together")
    seeds = forms.ChoiceField(
        choices=[(Campaign.Seeds.SPREAD, "Different for each problem"), (Campaign.Seeds.SAME, "The same for all")],
        label="Seeds",
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        placeholders(self)

    def clean(self) -> dict[str, Any]:
        """With `memory` as the service takes it."""
        data = super().clean() or {}
        return data if self.errors else {**data, "memory": self.memory()}


class AdaptForm(BatchForm):
    """What all tasks of an adapt run share."""

    USUAL = {
        **BatchForm.USUAL,
        "tasks": 60,
        "steps": 25,
        "control_steps": CONTROL_STEPS,
        "preset": "adapt",
        "trust": "auto",
        "threshold": MemoryChoice().threshold,
    }

    tasks = forms.IntegerField(min_value=1, max_value=MAX_TASKS, label="Tasks")
    steps = forms.IntegerField(min_value=1, label="Steps per task")
    control_steps = forms.IntegerField(min_value=0, label="Steps without memory")
    composer = forms.ChoiceField(choices=[_BUILTIN, ("model", "Language model")], label="Composer")
    trust = forms.ChoiceField(
        choices=[("auto", "Approved and proposed"), ("reviewed", "Approved only")], label="Rules in prompts"
    )
    threshold = forms.IntegerField(min_value=1, max_value=1000, label="Problems behind a rule")
    tokens = forms.CharField(max_length=20, required=False, label="Tokens")
    usd = forms.CharField(max_length=20, required=False, label="Cost (US$)")
    device_s = forms.CharField(max_length=20, required=False, label="Device time (s)")
    wall_s = forms.CharField(max_length=20, required=False, label="Time from the start (s)")

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["at_once"].label = "Tasks at once"
        if endpoint_from_settings().missing():
            self._choose("composer", [_BUILTIN])
        for name in NAMES:
            self.fields[name].widget.attrs.update(placeholder="no limit")

    def clean(self) -> dict[str, Any]:
        """With `limits`, those that were given."""
        data = super().clean() or {}
        return {**data, "limits": {name: data[name] for name in NAMES if data.get(name)}}


class TransferForm(ActionForm):
    """The problems to search with what an adapt run has learned, and without it."""

    problem = ProblemsField(most=MAX_TASKS, none="No problem is chosen. Choose at least one.")
    steps = forms.IntegerField(min_value=1, max_value=MAX_STEPS, label="Steps per problem")
