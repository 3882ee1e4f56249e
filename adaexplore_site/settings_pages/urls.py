"""Addresses of Settings."""

from __future__ import annotations

from django.urls import path

from adaexplore_site.settings_pages import views

urlpatterns = [
    path("settings/", views.settings_page, name="settings"),
    path("settings/<slug:tab>/", views.settings_page, name="settings-tab"),
]
