"""Addresses of `search`."""

from __future__ import annotations

from django.urls import path
from django.views.generic import RedirectView

from adaexplore_site.actions.views import action_view, actions_view
from search.batches import views as batches
from search.compare import views as compare
from search.failures import views as failures
from search.fleet import views as devices
from search.interchange import views as downloads
from search.interchange import views as gallery
from search.interchange import views as imports
from search.kernels import views as kernels
from search.lab import views as lab
from search.ledger import views as spend
from search.live import views as live
from search.nodes import views as nodes
from search.pictures import views as pictures
from search.rechecks.marking import VERBS as MARKS
from search.replay import views as what_if
from search.reports import views as reports
from search.runs import views as runs
from search.steering import views as steering

_MOVED = RedirectView.as_view(pattern_name="device-list", query_string=True, http_method_names=["get", "head"])

STEER = {  # the field `act` of a form -> its action
    **{name: f"steer.{name}" for name in ("pin", "prune", "restore", "boost", "force", "note", "params", "inject")},
    "undo": "steer.undo",
    "limits": "run.budget",
    "limits-undo": "run.budget.undo",
    "concurrency": "run.concurrency",
}
DEVICE_STATES = {"active": "device.activate", "draining": "device.drain", "quarantined": "device.quarantine"}

urlpatterns = [
    path("", runs.run_list, name="run-list"),
    path("new", runs.run_new, name="run-new"),
    path("compare", compare.compare, name="compare"),
    path("kernels/", kernels.kernel_list, name="kernel-list"),
    path("campaigns/", batches.campaign_list, name="campaign-list"),
    path("campaigns/new", batches.campaign_new, name="campaign-new"),
    path("campaigns/<int:campaign_id>/", batches.campaign_detail, name="campaign-detail"),
    path("campaigns/<int:campaign_id>/pause", action_view("campaign.pause"), name="campaign-pause"),
    path("campaigns/<int:campaign_id>/resume", action_view("campaign.resume"), name="campaign-resume"),
    path("campaigns/<int:campaign_id>/stop", action_view("campaign.stop"), name="campaign-stop"),
    path("adapt/", batches.adapt_list, name="adapt-list"),
    path("adapt/new", batches.adapt_new, name="adapt-new"),
    path("adapt/<int:adapt_id>/", batches.adapt_detail, name="adapt-detail"),
    path("adapt/<int:adapt_id>/adapt.<slug:form>", batches.adapt_file, name="adapt-file"),
    path("adapt/<int:adapt_id>/pause", action_view("adapt.pause"), name="adapt-pause"),
    path("adapt/<int:adapt_id>/resume", action_view("adapt.resume"), name="adapt-resume"),
    path("adapt/<int:adapt_id>/stop", action_view("adapt.stop"), name="adapt-stop"),
    path("adapt/<int:adapt_id>/transfer", action_view("adapt.transfer"), name="adapt-transfer"),
    path("s/<int:run_id>/", live.run_detail, name="run-detail"),
    path("s/<int:run_id>/snapshot", live.run_snapshot, name="run-snapshot"),
    path("s/<int:run_id>/events", live.run_events, name="run-events"),
    path("s/<int:run_id>/budget", live.run_budget, name="run-budget"),
    path("s/<int:run_id>/replay", live.run_replay, name="run-replay"),
    path("report/", reports.report, name="report"),
    path("gallery/", gallery.gallery, name="gallery"),
    path("import", imports.run_import, name="run-import"),
    path("s/<int:run_id>/run.zip", downloads.run_folder_download, name="run-folder-download"),
    path("s/<int:run_id>/run.json.gz", downloads.run_packed_download, name="run-packed-download"),
    path("s/<int:run_id>/n/<int:number>/solution.json", downloads.solution_download, name="solution-download"),
    path("s/<int:run_id>/pause", action_view("run.pause"), name="run-pause"),
    path("s/<int:run_id>/resume", action_view("run.resume"), name="run-resume"),
    path("s/<int:run_id>/stop", actions_view("now", {"1": "run.kill", "": "run.stop"}), name="run-stop"),
    path(
        "s/<int:run_id>/archive",
        actions_view("archived", {"1": "run.archive", "": "run.unarchive"}),
        name="run-archive",
    ),
    path("s/<int:run_id>/steer", actions_view("act", STEER), name="run-steer"),
    path("s/<int:run_id>/bulk/", steering.run_bulk, name="run-bulk"),
    path("s/<int:run_id>/remove", imports.run_remove, name="run-remove"),
    path("s/<int:run_id>/activity/", steering.run_activity, name="run-activity"),
    path("s/<int:run_id>/counterfactual/", what_if.counterfactual, name="run-counterfactual"),
    path("s/<int:run_id>/what-if/", what_if.what_if, name="run-what-if"),
    path("s/<int:run_id>/n/<int:number>/branch", action_view("run.branch"), name="node-branch"),
    path("s/<int:run_id>/n/<int:number>/", nodes.node_detail, name="node-detail"),
    path("s/<int:run_id>/n/<int:number>/verify", action_view("kernel.verify"), name="kernel-verify"),
    path("s/<int:run_id>/n/<int:number>/dispute", action_view("kernel.dispute"), name="kernel-dispute"),
    path("s/<int:run_id>/n/<int:number>/race", action_view("kernel.race"), name="kernel-race"),
    path(
        "s/<int:run_id>/n/<int:number>/recheck/cancel",
        action_view("kernel.recheck.cancel"),
        name="kernel-recheck-cancel",
    ),
    path(
        "s/<int:run_id>/n/<int:number>/mark",
        actions_view("mark", {verb.removeprefix("kernel."): verb for verb in MARKS}),
        name="kernel-mark",
    ),
    path("s/<int:run_id>/n/<int:number>/reply", action_view("node.reply"), name="node-reply"),
    path("s/<int:run_id>/n/<int:number>/kernel.py", downloads.kernel_download, name="kernel-download"),
    path("s/<int:run_id>/n/<int:number>/proof.zip", downloads.proof_download, name="proof-download"),
    path("failures/", failures.failure_list, name="failure-list"),
    path("failures/<slug:key>/", failures.failure_cluster, name="failure-cluster"),
    path("failures/<slug:key>/act", failures.failure_act, name="failure-act"),
    path("s/<int:run_id>/pictures/", pictures.run_pictures, name="run-pictures"),
    path("s/<int:run_id>/pictures/<slug:picture>.<slug:form>", pictures.picture_file, name="run-picture-file"),
    path("s/<int:run_id>/failures/", failures.run_failures, name="run-failures"),
    path("spend/", spend.spend, name="spend"),
    path("spend/budget", action_view("spend.budget"), name="spend-budget"),
    path("spend/prices", action_view("price.set"), name="spend-price"),
    path(
        "spend/prices/<int:price_id>/withdraw",
        actions_view("withdrawn", {"1": "price.withdraw", "": "price.restore"}),
        name="spend-price-withdraw",
    ),
    path("lab/", lab.lab_list, name="lab-list"),
    path("lab/<int:result_id>/", lab.lab_detail, name="lab-detail"),
    path("fleet/", devices.device_list, name="device-list"),
    path("devices/", _MOVED, name="device-list-old"),
    path("devices/<int:device_id>/", devices.device_detail, name="device-detail"),
    path("devices/<int:device_id>/state", actions_view("state", DEVICE_STATES), name="device-state"),
    path("s/<int:run_id>/n/<int:number>/revoke", action_view("node.revoke"), name="node-revoke"),
    path("devices/<int:device_id>/check", action_view("device.check"), name="device-check"),
]
