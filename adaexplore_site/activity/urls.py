"""Addresses of activity."""

from __future__ import annotations

from django.urls import path

from adaexplore_site.activity import views

urlpatterns = [
    path("activity/", views.activity, name="activity"),
    path("activity/activity.<slug:form>", views.activity_file, name="activity-file"),
]
