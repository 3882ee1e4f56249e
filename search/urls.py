"""Addresses of `search`."""

from __future__ import annotations

from django.urls import include, path

from search.views import devices, downloads, nodes, runs

urlpatterns = [
    path("", runs.run_list, name="run-list"),
    path("new", runs.run_new, name="run-new"),
    path("s/<int:run_id>/pause", runs.run_pause, name="run-pause"),
    path("s/<int:run_id>/resume", runs.run_resume, name="run-resume"),
    path("s/<int:run_id>/stop", runs.run_stop, name="run-stop"),
    path("s/<int:run_id>/n/<int:number>/", nodes.node_detail, name="node-detail"),
    path("s/<int:run_id>/n/<int:number>/reply", nodes.node_reply, name="node-reply"),
    path("s/<int:run_id>/n/<int:number>/kernel.py", downloads.kernel_download, name="kernel-download"),
    path("s/<int:run_id>/n/<int:number>/proof.zip", downloads.proof_download, name="proof-download"),
    path("devices/", devices.device_list, name="device-list"),
    path("devices/<int:device_id>/", devices.device_detail, name="device-detail"),
    path("devices/<int:device_id>/state", devices.device_state, name="device-state"),
    path("devices/<int:device_id>/check", devices.device_check, name="device-check"),
    path("", include("search.live.urls")),
]
