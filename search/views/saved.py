"""The forms of saved views. Each leads back to its list; what is refused is said there."""

from __future__ import annotations

from django.contrib import messages
from django.http import Http404, HttpResponse
from django.shortcuts import get_object_or_404, redirect
from django.views.decorators.http import require_POST

from adaexplore_site.audit import ActionRefused
from adaexplore_site.requests import SiteRequest, form_key
from search.models import SavedView
from search.saved.places import PLACES, address_of, query_of
from search.services import saved_views


@require_POST
def view_save(request: SiteRequest) -> HttpResponse:
    """Fields: `place`, `query`, `name`, `shared`."""
    place, query = request.POST.get("place", ""), request.POST.get("query", "")
    if place not in PLACES:
        raise Http404("This page has no views to save.")
    try:
        view = saved_views.view_save(
            place=place,
            name=_name(request),
            query=query,
            shared=_shared(request),
            user=request.user,
            key=form_key(request),
        )
    except ActionRefused as error:
        messages.error(request, str(error))
        return redirect(address_of(place, query_of(place, query)))
    messages.success(request, f"The view “{view.name}” is saved.")
    return redirect(address_of(place, view.query))


@require_POST
def view_rename(request: SiteRequest, view_id: int) -> HttpResponse:
    """Fields: `name`, `shared`."""
    view = _seen(request, view_id)
    try:
        saved_views.view_rename(
            view=view, name=_name(request), shared=_shared(request), user=request.user, key=form_key(request)
        )
    except ActionRefused as error:
        messages.error(request, str(error))
    return redirect(address_of(view.place, view.query))


@require_POST
def view_delete(request: SiteRequest, view_id: int) -> HttpResponse:
    """With `deleted` 1 it goes, else it comes back."""
    view, deleted = _seen(request, view_id), request.POST.get("deleted") == "1"
    try:
        saved_views.view_delete(view=view, deleted=deleted, user=request.user, key=form_key(request))
        messages.success(request, "The view is deleted; “Views” puts it back." if deleted else "The view is back.")
    except ActionRefused as error:
        messages.error(request, str(error))
    return redirect(address_of(view.place, view.query))


def _seen(request: SiteRequest, view_id: int) -> SavedView:
    """A private view of somebody else is not there."""
    view = get_object_or_404(SavedView, pk=view_id)
    if view.owner_id != request.user.pk and not view.shared:
        raise Http404("There is no such view.")
    return view


def _name(request: SiteRequest) -> str:
    return request.POST.get("name", "")[:200]


def _shared(request: SiteRequest) -> bool:
    return request.POST.get("shared") == "1"
