"""Addresses of `search`: its pages. An action names the address of its own form."""

from __future__ import annotations

from django.urls import path
from django.views.generic import RedirectView

from adaexplore_site.actions.views import action_routes
from search.batches import views as batches
from search.compare import versions as problem_versions
from search.compare import views as compare
from search.failures import views as failures
from search.fleet import views as devices
from search.interchange import views as interchange
from search.kernels import views as kernels
from search.lab import views as lab
from search.ledger import views as spend
from search.live import views as live
from search.nodes import views as nodes
from search.pictures import views as pictures
from search.replay import views as what_if
from search.reports import views as reports
from search.runs import views as runs
from search.steering import views as steering

_MOVED = RedirectView.as_view(pattern_name="device-list", query_string=True, http_method_names=["get", "head"])
_NODE = "s/<int:run_id>/n/<int:number>"

urlpatterns = [
    path("", runs.run_list, name="run-list"),
    path("new", runs.run_new, name="run-new"),
    path("compare", compare.compare, name="compare"),
    path("problems/<slug:slug>/diff", problem_versions.problem_diff, name="problem-diff"),
    path("kernels/", kernels.kernel_list, name="kernel-list"),
    path("campaigns/", batches.campaign_list, name="campaign-list"),
    path("campaigns/new", batches.campaign_new, name="campaign-new"),
    path("campaigns/<int:campaign_id>/", batches.campaign_detail, name="campaign-detail"),
    path("adapt/", batches.adapt_list, name="adapt-list"),
    path("adapt/new", batches.adapt_new, name="adapt-new"),
    path("adapt/<int:adapt_id>/", batches.adapt_detail, name="adapt-detail"),
    path("adapt/<int:adapt_id>/adapt.<slug:form>", batches.adapt_file, name="adapt-file"),
    path("s/<int:run_id>/", live.run_detail, name="run-detail"),
    path("s/<int:run_id>/snapshot", live.run_snapshot, name="run-snapshot"),
    path("s/<int:run_id>/events", live.run_events, name="run-events"),
    path("s/<int:run_id>/budget", live.run_budget, name="run-budget"),
    path("s/<int:run_id>/replay", live.run_replay, name="run-replay"),
    path("report/", reports.report, name="report"),
    path("gallery/", interchange.gallery, name="gallery"),
    path("import", interchange.run_import, name="run-import"),
    path("s/<int:run_id>/run.zip", interchange.run_download, {"form": "zip"}, name="run-folder-download"),
    path("s/<int:run_id>/run.json.gz", interchange.run_download, {"form": "packed"}, name="run-packed-download"),
    path("s/<int:run_id>/bulk/", steering.run_bulk, name="run-bulk"),
    path("s/<int:run_id>/activity/", steering.run_activity, name="run-activity"),
    path("s/<int:run_id>/counterfactual/", what_if.counterfactual, name="run-counterfactual"),
    path("s/<int:run_id>/what-if/", what_if.what_if, name="run-what-if"),
    path("s/<int:run_id>/n/<int:number>/", nodes.node_detail, name="node-detail"),
    path("failures/", failures.failure_list, name="failure-list"),
    path("failures/<slug:key>/", failures.failure_cluster, name="failure-cluster"),
    path("failures/<slug:key>/act", failures.failure_act, name="failure-act"),
    path("s/<int:run_id>/pictures/", pictures.run_pictures, name="run-pictures"),
    path("s/<int:run_id>/pictures/<slug:picture>.<slug:form>", pictures.picture_file, name="run-picture-file"),
    path("s/<int:run_id>/failures/", failures.run_failures, name="run-failures"),
    path("spend/", spend.spend, name="spend"),
    path("lab/", lab.lab_list, name="lab-list"),
    path("lab/<int:result_id>/", lab.lab_detail, name="lab-detail"),
    path("fleet/", devices.device_list, name="device-list"),
    path("devices/", _MOVED, name="device-list-old"),
    path("devices/<int:device_id>/", devices.device_detail, name="device-detail"),
    *(
        path(f"{_NODE}/{file}", interchange.node_download, {"form": form}, name=f"{form}-download")
        for form, file in (("kernel", "kernel.py"), ("proof", "proof.zip"), ("solution", "solution.json"))
    ),
    *action_routes("search"),
]
