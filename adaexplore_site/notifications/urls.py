"""Addresses of notifications."""

from __future__ import annotations

from django.urls import path

from adaexplore_site.notifications import views

urlpatterns = [
    path("notifications/", views.notice_list, name="notice-list"),
    path("notifications/count", views.notice_count, name="notice-count"),
    path("notifications/seen", views.notice_seen, name="notice-seen"),
]
