"""What an operator sets on the page of spending: the budget, a price for a model without one."""

from __future__ import annotations

from django import forms
from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import get_object_or_404, redirect
from django.utils import timezone
from django.views.decorators.http import require_POST

from adaexplore_site.access import Role, role_required
from adaexplore_site.audit import ActionRefused
from adaexplore_site.requests import SiteRequest, form_key
from search.models import ModelPrice
from search.services.spend_budget import budget_set
from search.services.spend_prices import price_set, price_withdraw
from search.spend_form import BudgetForm, PriceForm
from search.views.spend import page


@role_required(Role.OPERATOR)
@require_POST
def spend_budget(request: SiteRequest) -> HttpResponse:
    """Set it; 422 with the form where a field is wrong, 409 where it cannot be."""
    form = BudgetForm(request.POST)
    if not form.is_valid():
        return page(request, {}, status=422, budget_form=form)
    try:
        done = budget_set(**form.cleaned_data, user=request.user, key=form_key(request))
    except ActionRefused as error:
        return _refused(request, error, "budget_form", form)
    messages.success(request, "The budget is set." if done else "This budget holds already.")
    return redirect("spend")


@role_required(Role.OPERATOR)
@require_POST
def spend_price(request: SiteRequest) -> HttpResponse:
    """Set a price from today on."""
    form = PriceForm(request.POST)
    if not form.is_valid():
        return page(request, {}, status=422, price_form=form)
    try:
        price_set(**form.cleaned_data, on=timezone.now().date(), user=request.user, key=form_key(request))
    except ActionRefused as error:
        return _refused(request, error, "price_form", form)
    messages.success(request, "The price is set: calls from now on take it.")
    return redirect("spend")


@role_required(Role.OPERATOR)
@require_POST
def spend_price_withdraw(request: SiteRequest, price_id: int) -> HttpResponse:
    """With `withdrawn` 1 calls take it no longer, else they do again."""
    price = get_object_or_404(ModelPrice, pk=price_id)
    withdrawn = request.POST.get("withdrawn") == "1"
    try:
        price_withdraw(price=price, withdrawn=withdrawn, user=request.user, key=form_key(request))
    except ActionRefused as error:
        return page(request, {}, status=409, refused=str(error))
    messages.success(request, "The price is withdrawn." if withdrawn else "The price is in use again.")
    return redirect("spend")


def _refused(request: SiteRequest, error: ActionRefused, name: str, form: forms.Form) -> HttpResponse:
    form.add_error(None, str(error))
    return page(request, {}, status=409, **{name: form})
