"""Actions on the prices of models: set, withdraw, use again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from adaexplore_site.actions.action import CHANGED, UNDO, Action, Call, Kind, Result, Standing, Subject, missing
from adaexplore_site.actions.registry import register
from adaexplore_site.core.audit import ActionRefused
from adaexplore_site.core.models import AuditEntry
from search.ledger import prices as services
from search.ledger.forms import PriceForm
from search.ledger.models import ModelPrice

if TYPE_CHECKING:
    from django_stubs_ext import StrOrPromise


class PriceKind(Kind):
    name = "price"

    def load(self, entries: Sequence[AuditEntry]) -> dict[int, ModelPrice]:
        return ModelPrice.objects.in_bulk({int(entry.object_id) for entry in entries})

    def subject(self, entry: AuditEntry, loaded: dict[int, ModelPrice]) -> Subject | None:
        row = loaded.get(int(entry.object_id))
        return (
            None
            if row is None
            else Subject("price", gettext("price of %(model)s") % {"model": row.model}, reverse("spend"))
        )

    def find(self, entry: AuditEntry) -> ModelPrice:
        row = ModelPrice.objects.filter(pk=entry.object_id).first()
        if row is None:
            raise ActionRefused(gettext("The price no longer exists."))
        return row

    def now(self, target: ModelPrice) -> dict[str, Any]:
        return {"withdrawn": target.withdrawn_at is not None, **super().now(target)}


class PriceAction(Action):
    """It leaves the price in use or withdrawn, and can be undone while that is so."""

    kind = PriceKind()
    withdrawn: ClassVar[bool]

    def home(self, target: ModelPrice | None) -> str:
        return reverse("spend")

    def standing(self, entry: AuditEntry, loaded: dict[int, ModelPrice]) -> Standing:
        row = loaded.get(int(entry.object_id))
        if row is None:
            return Standing(why_not=gettext("the price no longer exists"))
        return UNDO if (row.withdrawn_at is not None) == self.withdrawn else CHANGED


@register
class SetPrice(PriceAction):
    """Set the price of a model that has none, from today on."""

    name, label, done = services.SET, _("Set the price of a model"), _("Set")
    Form = PriceForm
    pages, route, path = ("spend",), "spend-price", "spend/prices"
    inverse = services.WITHDRAW
    withdrawn = False

    def run(self, target: None, data: dict[str, Any], call: Call) -> Result:
        services.price_set(**data, on=timezone.now().date(), **call.who)
        return Result(gettext("The price is set. It applies to calls from now on."))


class Flip(PriceAction):
    """Withdraw and use again: each takes the other back."""

    takes = ("price_id",)
    route, path = "spend-price-withdraw", "spend/prices/<int:price_id>/withdraw"
    message: ClassVar[StrOrPromise]

    def locate(self, where: Mapping[str, Any]) -> ModelPrice:
        row = ModelPrice.objects.filter(pk=where["price_id"]).first()
        if row is None:
            raise missing("such price")
        return row

    def run(self, target: ModelPrice, data: dict[str, Any], call: Call) -> Result:
        services.price_withdraw(price=target, withdrawn=self.withdrawn, **call.who)
        return Result(self.message)


@register
class WithdrawPrice(Flip):
    """Use a price no longer. Calls that were made keep what they cost."""

    name, label, done = services.WITHDRAW, _("Withdraw the price"), _("Withdrawn")
    sends, inverse = {"withdrawn": "1"}, services.BACK
    withdrawn, message = True, _("The price is withdrawn.")


@register
class RestorePrice(Flip):
    """Use a withdrawn price again."""

    name, label, done = services.BACK, _("Use the price again"), _("In use again")
    sends, inverse = {"withdrawn": ""}, services.WITHDRAW
    withdrawn, message = False, _("The price is in use again.")
