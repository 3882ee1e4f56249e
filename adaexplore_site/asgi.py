"""ASGI entry: HTTP by Django, websockets by the search app's sockets."""

from __future__ import annotations

import gc
import os

from channels.auth import AuthMiddlewareStack
from channels.routing import ProtocolTypeRouter, URLRouter
from channels.security.websocket import AllowedHostsOriginValidator
from django.core.asgi import get_asgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "adaexplore_site.settings")

django_application = get_asgi_application()

from django.conf import settings  # noqa: E402

from adaexplore_site.operations.busy import Slots  # noqa: E402
from search.live.socket import websocket_urlpatterns  # noqa: E402  (needs the app registry)

application = ProtocolTypeRouter(
    {
        "http": Slots(django_application, at_once=settings.WEB_REQUESTS),
        "websocket": AllowedHostsOriginValidator(AuthMiddlewareStack(URLRouter(websocket_urlpatterns))),
    }
)

# A page of a large search makes tens of thousands of short-lived rows. Looking through all of Django after every 700 of
# them takes as long as the page itself; what is loaded by now stays until the process ends.
gc.collect()
gc.freeze()
gc.set_threshold(20_000, 20, 20)
