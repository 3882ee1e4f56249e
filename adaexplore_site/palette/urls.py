"""Addresses of palette."""

from __future__ import annotations

from django.urls import path

from adaexplore_site.palette import views

urlpatterns = [
    path("find/", views.find, name="find"),
    path("find/names", views.find_names, name="find-names"),
]
