"""Addresses of saved views."""

from __future__ import annotations

from django.urls import path

from adaexplore_site.actions.views import action_view, actions_view

urlpatterns = [
    path("views/save", action_view("view.save"), name="view-save"),
    path("views/<int:view_id>/rename", action_view("view.rename"), name="view-rename"),
    path(
        "views/<int:view_id>/delete",
        actions_view("deleted", {"1": "view.delete", "": "view.restore"}),
        name="view-delete",
    ),
]
