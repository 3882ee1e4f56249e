"""The template engine of the site. A request that wants no page gets the page's facts instead of its HTML.

The API does what a form does by calling the form's own view. Why an act was refused then stands in the facts that the
view gives its page; rendering them to HTML and reading them back would be a second, worse truth.
"""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest
from django.template.backends.django import DjangoTemplates, Template
from django.utils.safestring import SafeString


class Page(Template):
    """A template that hands its context to a request with `facts`, and renders it for all others."""

    def render(self, context: dict[str, Any] | None = None, request: HttpRequest | None = None) -> SafeString:
        """HTML, or nothing when the request keeps the facts."""
        facts: dict[str, Any] | None = getattr(request, "facts", None)
        if facts is None:
            return SafeString(super().render(context, request))
        facts.update(context or {})
        return SafeString("")


class Pages(DjangoTemplates):
    """Django's engine with such templates."""

    def get_template(self, template_name: str) -> Page:
        """Raises TemplateDoesNotExist."""
        return Page(super().get_template(template_name).template, self)
