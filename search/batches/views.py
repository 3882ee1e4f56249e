"""Campaigns and adapt runs on pages: which problems they take, the forms that start one, lists, progress, results."""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from django import forms
from django.db.models import Q
from django.http import Http404, HttpResponse, HttpResponseBase
from django.shortcuts import get_object_or_404, render
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_safe
from django.views.decorators.vary import vary_on_headers

from adaexplore_site.actions import registry
from adaexplore_site.actions.action import ActionForm
from adaexplore_site.actions.fields import TextListField
from adaexplore_site.actions.views import done, form_again, submit
from adaexplore_site.core.audit import ActionRefused
from adaexplore_site.core.downloads import attachment
from adaexplore_site.core.llm import endpoint_from_settings
from adaexplore_site.core.requests import SiteRequest
from judge.devices.models import Device
from judge.devices.services import search_devices
from judge.problems.models import OFFERED, Problem
from memory.adapt.effect import curve_of
from memory.adapt.models import AdaptRun, Batch
from memory.prompting.choices import MemoryChoice
from memory.rules.queries import RuleFilter, rules_filtered
from search import proposers
from search.algorithm.params import PRESELECTED, PRESETS, Preset, preset_get
from search.batches.adapt_results import adapt_csv, adapt_document, adapt_rows, effect_read, learned_by, task_rows
from search.batches.adapts import ADAPTS, CONTROL_STEPS, MAX_TASKS
from search.batches.budgets import LIMITS, used_facts
from search.batches.campaigns import (
    CAMPAIGNS,
    MAX_PROBLEMS,
    Sorting,
    campaign_report,
    campaign_row,
    campaign_rows,
    entry_rows,
)
from search.batches.engine import MAX_AT_ONCE, Source
from search.batches.models import Campaign
from search.reports.page import report_context
from search.reports.values import BEST, RULES
from search.reports.views import FORMS, report_file
from search.runs.memory_fields import MemoryFields, placeholders
from search.runs.services import MAX_CONCURRENCY, MAX_STEPS

if TYPE_CHECKING:
    from django_stubs_ext import StrOrPromise

STEPS_EACH = 20
_SEED_LIMIT = 2**31 - 1
_BUILTIN = ("builtin", _("Built-in composer"))


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
    rows = Problem.objects.filter(OFFERED).defer("source", "description")
    if chosen.level:
        rows = rows.filter(Q(level__iexact=chosen.level) | Q(level__iregex=rf"^level[\s_-]?{re.escape(chosen.level)}$"))
    if chosen.state:
        rows = rows.filter(state=chosen.state)
    rows = rows.filter(origin=chosen.origin) if chosen.origin else rows.exclude(origin=Problem.Origin.SYNTHETIC)
    if chosen.q:
        rows = rows.filter(Q(title__icontains=chosen.q) | Q(slug__icontains=chosen.q))
    return in_order(rows)


def by_slugs(slugs: Iterable[str]) -> tuple[list[Problem], list[str]]:
    """(problems in the order given, slugs that no problem has but an archived one)."""
    wanted = list(dict.fromkeys(slugs))
    chosen = Problem.objects.filter(slug__in=wanted, archived_at=None).defer("source", "description")
    rows = {problem.slug: problem for problem in chosen}
    return [rows[slug] for slug in wanted if slug in rows], [slug for slug in wanted if slug not in rows]


def in_order(problems: Iterable[Problem]) -> list[Problem]:
    """`L2 9 ...` before `L2 10 ...`."""
    return sorted(problems, key=lambda one: (_number(one.level), _natural(one.title), one.slug))


def levels() -> list[str]:
    """The levels there are, in numeric order."""
    found = Problem.objects.filter(OFFERED).exclude(level="").order_by().values_list("level", flat=True).distinct()
    return sorted(found, key=lambda level: (_number(level), level))


def _number(level: str) -> int:
    found = re.search(r"\d+", level)
    return int(found[0]) if found else 1 << 30


def _natural(text: str) -> list[tuple[int, int, str]]:
    """Digits by their value, words by their letters."""
    return [(0, int(part), "") if part.isdigit() else (1, 0, part.lower()) for part in re.findall(r"\d+|\D+", text)]


class ProblemsField(TextListField):
    """Slugs of problems. `clean` gives the rows, without sources, in the order given."""

    def __init__(self, *, most: int, none: StrOrPromise) -> None:
        super().__init__(label=_("Problems"), help_text=_("Slugs."), error_messages={"required": none})
        self.most = most

    def clean(self, value: Any) -> list[Problem]:  # type: ignore[override]
        """Raises ValidationError for none, for more than `most`, and for a slug that no problem has."""
        slugs = list(dict.fromkeys(slug[:80] for slug in super().clean(value)))
        if len(slugs) > self.most:
            text = gettext("Choose up to %(most)d problems; these are %(n)d.")
            raise forms.ValidationError(text % {"most": self.most, "n": len(slugs)})
        problems, missing = by_slugs(slugs)
        if missing:
            text = gettext("There is no problem %(slug)r any more. Choose again.")
            raise forms.ValidationError(text % {"slug": missing[0]})
        return problems


class BatchForm(forms.Form):
    """What every batch is started with. The service checks again what depends on rows.

    `USUAL` is filled in on the page. It is no default: a program that leaves a field out gets an error.
    """

    USUAL: ClassVar[Mapping[str, Any]] = {"at_once": 1, "concurrency": 1, "preset": PRESELECTED}

    title = forms.CharField(max_length=160, required=False, label=_("Title"))
    at_once = forms.IntegerField(min_value=1, max_value=MAX_AT_ONCE, label=_("Searches at once"))
    concurrency = forms.IntegerField(min_value=1, max_value=MAX_CONCURRENCY, label=_("Steps in flight per search"))
    seed = forms.IntegerField(min_value=0, max_value=_SEED_LIMIT, required=False, label=_("Seed"))
    preset = forms.ChoiceField(
        choices=[(preset.name, f"{preset.name}: {preset.title}") for preset in PRESETS.values()],
        label=_("Parameters"),
    )
    device = forms.ChoiceField(label=_("Device"))
    proposer = forms.ChoiceField(label=_("Proposer"))

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **{**kwargs, "initial": {**self.USUAL, **(kwargs.get("initial") or {})}})
        self.label_suffix = ""
        self._devices = {device.name: device for device in search_devices()}
        usable = [choice for choice in proposers.available() if choice.ready and choice.name not in proposers.ATTENDED]
        self._choose("device", [(device.name, f"{device.name} · {device.title}") for device in self._devices.values()])
        self._choose("proposer", [(choice.name, choice.title) for choice in usable])
        for field in self.fields.values():
            if isinstance(field, forms.IntegerField):
                field.widget.attrs.update(inputmode="numeric", autocomplete="off")
        self.fields["seed"].widget.attrs.update(placeholder=_("random"))
        self.fields["title"].widget.attrs.update(placeholder=_("optional"), autocomplete="off")

    def _choose(self, name: str, pairs: Sequence[tuple[str, StrOrPromise]]) -> None:
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

    problem = ProblemsField(
        most=MAX_PROBLEMS, none=_("No problem is chosen. Choose at least one, or change the filter.")
    )
    steps = forms.IntegerField(min_value=1, label=_("Steps, all problems together"))
    seeds = forms.ChoiceField(
        choices=[
            (Campaign.Seeds.SPREAD, _("Different for each problem")),
            (Campaign.Seeds.SAME, _("The same for all")),
        ],
        label=_("Seeds"),
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        placeholders(self)

    def clean(self) -> dict[str, Any]:
        """With `memory` as the service takes it."""
        data = super().clean() or {}
        return data if self.errors else {**data, "memory": self.memory()}


def _limit_field(label: StrOrPromise) -> forms.Field:
    attributes = {"placeholder": _("no limit"), "inputmode": "numeric", "autocomplete": "off"}
    return forms.CharField(max_length=20, required=False, label=label, widget=forms.TextInput(attributes))


LimitFields = type("LimitFields", (forms.Form,), {name: _limit_field(limit.label) for name, limit in LIMITS.items()})


class AdaptForm(BatchForm, LimitFields):  # type: ignore[misc,valid-type]
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

    tasks = forms.IntegerField(min_value=1, max_value=MAX_TASKS, label=_("Tasks"))
    steps = forms.IntegerField(min_value=1, label=_("Steps per task"))
    control_steps = forms.IntegerField(min_value=0, label=_("Steps without memory"))
    composer = forms.ChoiceField(choices=[_BUILTIN, ("model", _("Language model"))], label=_("Composer"))
    trust = forms.ChoiceField(
        choices=[("auto", _("Approved and proposed")), ("reviewed", _("Approved only"))], label=_("Rules in prompts")
    )
    threshold = forms.IntegerField(min_value=1, max_value=1000, label=_("Problems behind a rule"))

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["at_once"].label = _("Tasks at once")
        if endpoint_from_settings().missing():
            self._choose("composer", [_BUILTIN])

    @property
    def limits(self) -> list[list[forms.BoundField]]:
        """The fields of limits, two to a row."""
        names = list(LIMITS)
        return [[self[name] for name in names[start : start + 2]] for start in range(0, len(names), 2)]

    def clean(self) -> dict[str, Any]:
        """With `limits`, those that were given."""
        data = super().clean() or {}
        return {**data, "limits": {name: data[name] for name in LIMITS if data.get(name)}}


class TransferForm(ActionForm):
    """The problems to search with what an adapt run has learned, and without it."""

    problem = ProblemsField(most=MAX_TASKS, none=_("No problem is chosen. Choose at least one."))
    steps = forms.IntegerField(min_value=1, max_value=MAX_STEPS, label=_("Steps per problem"))


PAGE = 100
MOST_ROWS = 200
LEFT_OUT = (Problem.State.REFUSED, Problem.State.DEGENERATE)  # one cannot start, the other counts in no figure
CONTROLS = {"pause": _("Pause"), "resume": _("Resume"), "stop": _("Stop")}
POSSIBLE = {Batch.State.RUNNING: ("pause", "stop"), Batch.State.PAUSED: ("resume", "stop")}


def _newest(source: Source) -> list[Any]:
    return list(source.rows.objects.select_related("device").order_by("-id")[:PAGE])


def _controls(source: Source, batch: Batch) -> list[dict[str, StrOrPromise]]:
    """The actions that are possible now, each with a key so that a repeated submit is one action."""
    return [
        {
            "name": name,
            "label": CONTROLS[name],
            "url": reverse(f"{source.name}-{name}", args=[batch.pk]),
            "key": secrets.token_urlsafe(16),
        }
        for name in POSSIBLE.get(Batch.State(batch.state), ())
    ]


def _started(request: SiteRequest, source: Source) -> HttpResponseBase | tuple[forms.Form, int]:
    """The next page, or the form with its errors and the status."""
    action = registry.action(f"{source.name}.start")
    try:
        return done(request, action, submit(request, action, {}))
    except ActionRefused as error:
        return form_again(request, action, {}, error)


@never_cache
@require_safe
def campaign_list(request: SiteRequest) -> HttpResponse:
    """Every campaign with its progress, newest first."""
    return render(request, "batches/campaign_list.html", {"rows": campaign_rows(_newest(CAMPAIGNS))})


@never_cache
@require_safe
def adapt_list(request: SiteRequest) -> HttpResponse:
    """Every adapt run with its progress, newest first."""
    return render(request, "batches/adapt_list.html", {"rows": adapt_rows(_newest(ADAPTS))})


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def campaign_new(request: SiteRequest) -> HttpResponseBase:
    """Choose problems by a filter, select them, start. A POST that is refused is 422 or 409 with the reason."""
    form: forms.Form
    status = 200
    chosen = Filter(**{name: request.GET.get(name, "").strip()[:80] for name in ("level", "state", "origin", "q")})
    problems = filtered(chosen)[:MAX_PROBLEMS]
    if request.method == "POST":
        answer = _started(request, CAMPAIGNS)
        if isinstance(answer, HttpResponseBase):
            return answer
        form, status = answer
        sent, _ = by_slugs([slug[:80] for slug in request.POST.getlist("problem")][:MAX_PROBLEMS])
        selected = {problem.slug for problem in sent}
        problems = in_order({problem.pk: problem for problem in (*problems, *sent)}.values())
    else:
        steps = STEPS_EACH * max(len(problems), 1)
        form = CampaignForm(initial={"steps": steps, "proposer": proposers.default_name()})
        selected = {problem.slug for problem in problems if problem.state not in LEFT_OUT}
    context = {
        "form": form,
        "problems": [(problem, problem.slug in selected) for problem in problems],
        "chosen": chosen,
        "levels": levels(),
        "states": Problem.State.choices,
        "origins": Problem.Origin.choices,
        "key": secrets.token_urlsafe(16),
    }
    return render(request, "batches/campaign_new.html", context, status=status)


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def adapt_new(request: SiteRequest) -> HttpResponseBase:
    """What all tasks share. A POST that is refused is 422 or 409 with the reason."""
    form: forms.Form = AdaptForm(initial={"proposer": proposers.default_name()})
    status = 200
    if request.method == "POST":
        answer = _started(request, ADAPTS)
        if isinstance(answer, HttpResponseBase):
            return answer
        form, status = answer
    context = {"form": form, "key": secrets.token_urlsafe(16)}
    return render(request, "batches/adapt_new.html", context, status=status)


def _progress(answer: HttpResponse, *, ended: bool) -> HttpResponse:
    """What a page that polls gets. The last answer has the page loaded anew: its buttons and report are of a batch that
    runs."""
    if ended:
        answer["HX-Refresh"] = "true"
    return answer


@never_cache
@vary_on_headers("HX-Request")
@require_safe
def campaign_detail(request: SiteRequest, campaign_id: int) -> HttpResponse:
    """Progress, every problem, the report; the progress is polled while it runs.

    Query: `sort` (see `Sorting`), `rule`, `as` a file.
    """
    campaign = get_object_or_404(Campaign.objects.select_related("device", "owner"), pk=campaign_id)
    rule = request.GET.get("rule", BEST)
    sorting = Sorting.of(request.GET.get("sort", ""))
    links = sorting.links(campaign)
    context: dict[str, Any] = {
        "batch": campaign,
        "row": campaign_row(campaign),
        "entries": sorting.rows(entry_rows(campaign)),
        "sorting": sorting,
        "sorts": links,
        "directions": {link.name: link.direction for link in links},
    }
    if request.htmx:
        return _progress(render(request, "batches/campaign_detail.html#progress", context), ended=campaign.ended)
    made = campaign_report(campaign, rule=rule if rule in RULES else BEST)
    if request.GET.get("as") in FORMS:
        return report_file(made, request.GET["as"], f"campaign-{campaign.pk}")
    own = reverse("campaign-detail", args=[campaign.pk])
    context |= {
        "files": [(name.upper(), f"{own}?as={name}") for name in FORMS],
        "controls": _controls(CAMPAIGNS, campaign),
        **report_context(made),
    }
    return render(request, "batches/campaign_detail.html", context)


@never_cache
@vary_on_headers("HX-Request")
@require_safe
def adapt_detail(request: SiteRequest, adapt_id: int) -> HttpResponse:
    """Progress, lessons, effect and tasks; polled while it runs. Query: `all` tasks."""
    adapt = get_object_or_404(AdaptRun.objects.select_related("device", "owner", "transfer_of"), pk=adapt_id)
    tasks = task_rows(adapt)
    effect = effect_read(adapt, tasks)
    shown = tasks if "all" in request.GET else tasks[-MOST_ROWS:]
    context: dict[str, Any] = {
        "batch": adapt,
        "row": adapt_rows([adapt])[0],
        "tasks": shown,
        "hidden": len(tasks) - len(shown),
        "effect": effect,
        "curve": curve_of(effect),
        "learned": learned_by(adapt),
        "used": used_facts(adapt),
    }
    if request.htmx:
        return _progress(render(request, "batches/adapt_detail.html#progress", context), ended=adapt.ended)
    context |= {
        "to_review": rules_filtered(RuleFilter(adapt=adapt.pk), timezone.now()).count(),
        "files": [(form.upper(), reverse("adapt-file", args=[adapt.pk, form])) for form in ("csv", "json")],
        "controls": _controls(ADAPTS, adapt),
        "transfers": adapt_rows(list(adapt.transfers.select_related("device"))),
    }
    if adapt.transfer_of_id is None:
        context |= {"problems": _real_problems(), "key": secrets.token_urlsafe(16), "control": CONTROL_STEPS}
    return render(request, "batches/adapt_detail.html", context)


def _real_problems() -> list[Problem]:
    """Problems that were not composed and taught nothing, in the order a benchmark counts them."""
    rows = Problem.objects.filter(OFFERED, origin__in=(Problem.Origin.IMPORT, Problem.Origin.UPLOAD))
    return in_order(rows.exclude(state__in=LEFT_OUT).defer("source", "description", "admission"))


@never_cache
@require_safe
def adapt_file(request: SiteRequest, adapt_id: int, form: str) -> HttpResponse:
    """Its data as a download: `form` is csv (a line per task) or json (everything)."""
    adapt = get_object_or_404(AdaptRun.objects.select_related("device"), pk=adapt_id)
    document = adapt_document(adapt)
    if form == "csv":
        return attachment(f"adapt-{adapt.pk}.csv", adapt_csv(document).encode(), "text/csv; charset=utf-8")
    if form == "json":
        return attachment(f"adapt-{adapt.pk}.json", json.dumps(document, indent=1).encode(), "application/json")
    raise Http404(gettext("There are csv and json."))
