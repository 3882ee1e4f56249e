"""The forms of what steers a search and its nodes. The pages show them, and show them again with what was wrong."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from django import forms
from django.utils.text import format_lazy
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from adaexplore_site.actions.action import ActionForm
from adaexplore_site.actions.fields import TextListField
from adaexplore_site.core.audit import FieldsRefused
from adaexplore_site.core.text import storable_text
from judge.devices.models import Device
from judge.devices.services import search_devices
from judge.sources.checks import ProblemRejected, check_candidate
from search.algorithm.params import POLICY_NAMES, REWARD_NAMES, SETTABLE, SearchParams
from search.algorithm.tree import LARGE, SMALL
from search.engine.budgets import adapt_sharing
from search.ledger.books import limits_of
from search.ledger.limits import ADDABLE
from search.proposers.exchange import MAX_REPLY_BYTES
from search.records.log import params_in_force
from search.records.models import Run
from search.runs.services import MAX_CONCURRENCY
from search.steering.many import NodeFilter

if TYPE_CHECKING:
    from django_stubs_ext import StrOrPromise

NODE, SELECTIONS = _("number of the node"), _("selections")
TYPED = 50  # above so many nodes, the person types the number
CHOICES = {"policy": POLICY_NAMES, "reward": REWARD_NAMES}
MAX_QUOTA = 1000
MAX_BOOST = 10.0  # rewards lie between 0 and 1.6
NOTE_CHARS = 1000
NOTE_BYTES = 1500  # as JSON in the log: an event holds 2 kB
EXTENDABLE = (Run.State.RUNNING, Run.State.PAUSED, Run.State.FINISHED)  # states in which limits can be added to


def _whole(what: StrOrPromise, *, outside: StrOrPromise = "", **more: Any) -> forms.IntegerField:
    """A whole number. `what` names it in errors; `outside` is the error below `min_value` and above `max_value`."""
    text = format_lazy(_("Enter a whole number for {what}."), what=what)
    bounds = {"min_value": outside, "max_value": outside} if outside else {}
    return forms.IntegerField(**more, error_messages={"invalid": text, "required": text, **bounds})


def _number(what: StrOrPromise, **more: Any) -> forms.FloatField:
    text = format_lazy(_("Enter a number for {what}."), what=what)
    return forms.FloatField(**more, error_messages={"invalid": text, "required": text})


def _node(text: StrOrPromise = NODE, *, required: bool = True) -> forms.IntegerField:
    return _whole(_("the node"), help_text=text, required=required)


def _quota(text: StrOrPromise = SELECTIONS, *, required: bool = True) -> forms.IntegerField:
    outside = format_lazy(_("A pin covers 1 to {most} selections, not %(show_value)s."), most=MAX_QUOTA)
    return _whole(SELECTIONS, outside=outside, min_value=1, max_value=MAX_QUOTA, help_text=text, required=required)


def _boost(*, required: bool = True) -> forms.FloatField:
    text = format_lazy(_("A boost is a number from -{most:g} to {most:g}; rewards lie from 0 to 1.6."), most=MAX_BOOST)
    errors = dict.fromkeys(("invalid", "required", "min_value", "max_value"), text)
    return forms.FloatField(min_value=-MAX_BOOST, max_value=MAX_BOOST, required=required, error_messages=errors)


def _kind(*, required: bool) -> forms.ChoiceField:
    return forms.ChoiceField(
        choices=[(LARGE, LARGE), (SMALL, SMALL)],
        help_text=_("large or small"),
        required=required,
        error_messages={
            "invalid_choice": _("A step is large or small, not “%(value)s”."),
            "required": _("Choose large or small."),
        },
    )


class NodeForm(ActionForm):
    number = _node()


class PinForm(NodeForm):
    quota = _quota()


class BoostForm(NodeForm):
    boost = _boost()


class ForceForm(ActionForm):
    kind = _kind(required=True)
    number = _node(_("node to continue from"), required=False)


class NoteForm(NodeForm):
    text = forms.CharField(
        widget=forms.Textarea,
        error_messages={"required": _("The note is empty. Write what the proposer should know or try.")},
    )

    def clean_text(self) -> str:
        """One line, short enough for an event."""
        note = " ".join(storable_text(self.cleaned_data["text"]).split())
        if len(note) > NOTE_CHARS or len(json.dumps(note)) > NOTE_BYTES:
            raise forms.ValidationError(
                gettext("The note has %(count)s characters; %(note_chars)s fit, fewer if some are not ASCII.")
                % {"count": len(note), "note_chars": NOTE_CHARS}
            )
        return note


class InjectForm(ActionForm):
    source = forms.CharField(
        strip=False,
        widget=forms.Textarea,
        error_messages={"required": _("The kernel is empty. Write the module with class ModelNew.")},
    )
    kind = _kind(required=False)
    number = _node(_("its parent"), required=False)

    def clean_source(self) -> str:
        """The text as the judge takes it."""
        try:
            return check_candidate(self.cleaned_data["source"], max_bytes=MAX_REPLY_BYTES)
        except ProblemRejected as error:
            raise forms.ValidationError(str(error)) from error


class UndoForm(ActionForm):
    seq = _whole(_("the event"), help_text=_("number of the event"))


class TakeForm(ActionForm):
    action = _whole(_("the action"), help_text=_("number of the action that added"))


class ParamsForm(ActionForm):
    """The parameters in force, and beside each what the form has shown: only what differs from that is changed, as
    somebody else may have changed the rest meanwhile."""

    def __init__(self, data: Mapping[str, Any] | None = None, *, run: Run, **more: Any) -> None:
        super().__init__(data, **more)
        self.in_force = params_in_force(run).to_json()
        for name in SETTABLE:
            now = str(self.in_force[name])
            self.fields[f"was-{name}"] = forms.CharField(widget=forms.HiddenInput, required=False, initial=now)
            self.fields[name] = forms.CharField(required=False, label=name, initial=now, widget=self._widget(name))

    def _widget(self, name: str) -> forms.Widget:
        if name not in CHOICES:
            return forms.TextInput(attrs={"inputmode": "decimal", "autocomplete": "off"})
        names = dict.fromkeys((*CHOICES[name], *filter(None, [self.data.get(name)])))
        return forms.Select(choices=[(one, one) for one in names])

    def clean(self) -> dict[str, Any]:
        """`changes`: the new values by name."""
        given, changes = self.cleaned_data, {}
        for name in SETTABLE:
            if given[name] == given[f"was-{name}"]:
                continue
            try:
                changes[name] = SearchParams.from_texts([f"{name}={given[name]}"], self.in_force).to_json()[name]
            except ValueError as error:
                self.add_error(name, str(error))
        return {"changes": changes}


class LimitsForm(ActionForm):
    """What is added to each limit. It has the fields of the limits that can be added to now, and what was sent."""

    steps = _whole(_("steps"), label=_("steps"), required=False)
    evaluations = _whole(_("evaluations"), label=_("evaluations"), required=False)
    device_s = _number(_("device seconds"), label=_("device seconds"), required=False)
    tokens = _whole(_("tokens"), label=_("tokens"), required=False)
    usd = forms.DecimalField(label=_("US dollars"), required=False, error_messages={"invalid": _("Enter an amount.")})
    wall_s = _number(_("wall-clock seconds"), label=_("wall-clock seconds"), required=False)
    stale_steps = _whole(_("steps without a new best"), label=_("steps without a new best"), required=False)

    def __init__(self, data: Mapping[str, Any] | None = None, *, run: Run, **more: Any) -> None:
        super().__init__(data, **more)
        self.limits = limits_of(run)
        shown = addable(run)
        self.fields = {name: field for name, field in self.fields.items() if name in shown or self.data.get(name)}
        for name, field in self.fields.items():
            field.widget.attrs |= {"min": "0", "step": "0.01" if name == "usd" else "1", "autocomplete": "off"}

    def clean(self) -> dict[str, Any]:
        """`delta`: what is added, by name."""
        delta = {name: value for name, value in self.cleaned_data.items() if value is not None}
        for name, value in delta.items():
            try:
                self.limits.extended({name: value})
            except ValueError as error:
                self.add_error(name, str(error))
        return {"delta": delta}


class ConcurrencyForm(ActionForm):
    concurrency = _whole(
        _("the steps in flight"),
        outside=format_lazy(_("Steps in flight must be from 1 to {most}."), most=MAX_CONCURRENCY),
        label=_("steps in flight"),
        help_text=_("steps in flight"),
        min_value=1,
        max_value=MAX_CONCURRENCY,
    )


def addable(run: Run) -> list[str]:
    """The limits that can be added to now; none where a campaign or an adapt run shares them out."""
    if run.origin == Run.Origin.IMPORT or run.state not in EXTENDABLE:
        return []
    if hasattr(run, "campaign_entry") or (run.origin == Run.Origin.ADAPT and adapt_sharing(run)):
        return []
    limits = limits_of(run)
    return [name for name in ADDABLE if getattr(limits, name) is not None]


class BranchForm(ActionForm):
    steps = _whole(
        _("steps"), outside=_("A branch needs at least one step of its own, not %(show_value)s."), min_value=1
    )
    proposer = forms.CharField(required=False)
    device = forms.CharField(required=False, help_text=_("name"))

    def clean_device(self) -> Device | None:
        """The device of this name."""
        name = self.cleaned_data["device"]
        if not name:
            return None
        found = next((device for device in search_devices() if device.name == name), None)
        if found is None:
            raise forms.ValidationError(
                gettext("There is no device %(name)r that judges. Choose one from the list.") % {"name": name[:40]}
            )
        return found


class BulkForm(ActionForm):
    """An action, what it needs, and the filter of the nodes that it is done to."""

    act = forms.CharField(help_text=_("prune, pin, boost or restore"))
    expected = _whole(_("the nodes"), help_text=_("nodes that it reaches"))
    typed = _whole(_("the nodes"), help_text=format_lazy(_("the same above {limit}"), limit=TYPED), required=False)
    quota = _quota(_("selections at each node"), required=False)
    boost = _boost(required=False)
    state = TextListField(required=False, help_text=_("such as wrong, compile-error, slower"))
    kind = forms.CharField(required=False, help_text=_("large or small"))
    under = forms.FloatField(required=False, help_text=_("speedup over eager"))
    below = forms.IntegerField(required=False, help_text=_("node above them"))
    q = forms.CharField(required=False, help_text=_("number, reason or change"))
    told = forms.IntegerField(required=False, help_text=_("leave out what was completed later"))
    seen = forms.CharField(required=False)

    def clean(self) -> dict[str, Any]:
        """`chosen`: the filter; `values`: what the action needs; `expected`: what was typed, where it was."""
        given = self.cleaned_data
        act, expected = given.get("act"), given.get("expected") or 0
        if expected > TYPED and not given.get("typed") and "typed" not in self.errors:
            self.add_error(
                "typed",
                gettext("Type %(expected)s to confirm: the action reaches more than %(typed)s nodes.")
                % {"expected": expected, "typed": TYPED},
            )
        for needs, name in (("pin", "quota"), ("boost", "boost")):
            if act == needs and given.get(name) is None and name not in self.errors:
                self.add_error(
                    name, gettext("A %(needs)s needs a number for %(name)s.") % {"needs": needs, "name": name}
                )
        given["values"] = {
            name: given.get(name) for needs, name in (("pin", "quota"), ("boost", "boost")) if act == needs
        }
        given["expected"] = given.get("typed") or expected
        try:
            texts = {name: str(self.data.get(name, "")) for name in self.fields}
            given["chosen"] = NodeFilter.of(texts, given.get("state", ()))
        except FieldsRefused as refused:
            for name, text in refused.fields.items():
                self.errors.pop(name, None)
                self.add_error(name, text)
        return given
