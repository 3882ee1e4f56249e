"""Websocket addresses."""

from __future__ import annotations

from typing import Any

from channels.layers import get_channel_layer
from django.urls import path, re_path

from search.live.hub import Hubs
from search.live.socket import RunSocket, no_such_socket

websocket_urlpatterns: list[Any] = [
    path("ws/run/<int:run_id>", RunSocket(Hubs(layer=get_channel_layer))),  # type: ignore[arg-type]
    re_path(r"", no_such_socket),  # type: ignore[arg-type]
]
