"""Addresses of `judge`."""

from __future__ import annotations

from django.urls import path

from judge import views

urlpatterns = [
    path("problems/", views.problem_list, name="problem-list"),
    path("problem-upload/", views.problem_upload, name="problem-upload"),
    path("problems/<slug:slug>/", views.problem_detail, name="problem-detail"),
    path("problems/<slug:slug>/preflight", views.problem_preflight, name="problem-preflight"),
]
