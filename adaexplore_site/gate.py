"""Asks before an act that nothing takes back: the first POST gets a question, the second one says `sure`."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render


def question(request: HttpRequest, *, ask: str, what: str, yes: str, back: str) -> HttpResponse | None:
    """A page that asks, with the fields of the form on it; None once the person has said yes.

    `ask` is its title, `what` says what will happen, `yes` labels the button, `back` is where "Keep it" leads.
    """
    if request.POST.get("sure") == "1":
        return None
    kept = [(name, value) for name in request.POST for value in request.POST.getlist(name)]
    fields = [(name, value) for name, value in kept if name not in ("csrfmiddlewaretoken", "sure")]
    context = {"ask": ask, "what": what, "yes": yes, "back": back, "fields": fields}
    return render(request, "confirm.html", context)
