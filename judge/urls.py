"""Addresses of `judge`."""

from __future__ import annotations

from django.urls import path

from adaexplore_site.actions.views import action_routes, action_view
from judge.evaluations import views as evaluation_views
from judge.problems import views
from judge.selftest import views as selftest_views

urlpatterns = [
    path("problems/", views.problem_list, name="problem-list"),
    path("problem-upload/", action_view("problem.upload"), name="problem-upload"),
    path("problems/<slug:slug>/", views.problem_detail, name="problem-detail"),
    path("problems/<slug:slug>/preflight", views.problem_preflight, name="problem-preflight"),
    path("problems/<slug:slug>/preflight/stop", action_view("preflight.stop"), name="problem-preflight-stop"),
    path("evaluations/<int:evaluation_id>/", evaluation_views.evaluation_detail, name="evaluation-detail"),
    path("evaluations/<int:evaluation_id>/samples.csv", evaluation_views.samples_csv, name="evaluation-samples-csv"),
    path("evaluations/<int:evaluation_id>/samples.json", evaluation_views.samples_json, name="evaluation-samples-json"),
    path("judge/", selftest_views.self_test_list, name="self-test-list"),
    path("judge/<str:device>/", selftest_views.self_test_detail, name="self-test-detail"),
    path("judge/<str:device>/start", action_view("selftest.start"), name="self-test-start"),
    path("judge/<str:device>/stop", action_view("selftest.stop"), name="self-test-stop"),
    *action_routes("judge"),
]
