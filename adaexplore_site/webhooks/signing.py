"""The secret of a webhook and the signature of what is sent to it."""

from __future__ import annotations

import base64
import hashlib
import hmac

from django.conf import settings

from adaexplore_site.core.webhook_models import Webhook


def secret_of(hook: Webhook) -> str:
    """Derived, so that neither a row nor a backup of the database holds it."""
    text = f"adaexplore_site.webhooks\0{hook.salt}".encode()
    digest = hmac.new(str(settings.SECRET_KEY).encode(), text, hashlib.sha256).digest()
    return "whsec_" + base64.urlsafe_b64encode(digest).decode().rstrip("=")


def signature(secret: str, *, timestamp: int, body: bytes) -> str:
    """`sha256=...`: HMAC-SHA256 over the timestamp, a dot and the body, by the text of the secret."""
    return "sha256=" + hmac.new(secret.encode(), f"{timestamp}.".encode() + body, hashlib.sha256).hexdigest()
