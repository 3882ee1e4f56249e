"""Addresses of the live view; included by `search.urls`."""

from __future__ import annotations

from django.urls import path

from search.live import views

urlpatterns = [
    path("s/<int:run_id>/", views.run_detail, name="run-detail"),
    path("s/<int:run_id>/snapshot", views.run_snapshot, name="run-snapshot"),
    path("s/<int:run_id>/events", views.run_events, name="run-events"),
    path("s/<int:run_id>/budget", views.run_budget, name="run-budget"),
    path("s/<int:run_id>/replay", views.run_replay, name="run-replay"),
]
