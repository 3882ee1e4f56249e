"""Who asks: a token in the header, or the session of somebody who is signed in."""

from __future__ import annotations

import copy
import logging

from axes.handlers.proxy import AxesProxyHandler
from django.contrib.auth.models import User
from django.contrib.auth.signals import user_login_failed
from django.http import HttpRequest
from django.utils import timezone
from ninja.errors import AuthenticationError, AuthorizationError, HttpError
from ninja.security.base import AuthBase
from ninja.utils import check_csrf

from adaexplore_site.accounts.tokens import user_of

log = logging.getLogger(__name__)
NOBODY = "API token"  # the name under which django-axes counts wrong tokens of an address


class Token(AuthBase):
    """`Authorization: Bearer ada_...`. Wrong ones are counted as failed sign-ins are; too many are 429 for a while."""

    openapi_type = "http"
    openapi_scheme = "bearer"
    openapi_description = "A token of Settings, Tokens"

    def __call__(self, request: HttpRequest) -> User | None:
        """The token's user with the roles that its scopes leave; None without a token."""
        scheme, _, text = request.headers.get("Authorization", "").partition(" ")
        if scheme.lower() != "bearer":  # a proxy's own sign-in is none of ours
            return None
        user = user_of(text.strip(), now=timezone.now())
        if user is None:
            _refuse(request)
        else:
            request.user = user
        return user


class Session(AuthBase):
    """The cookie of a signed-in browser; what changes something needs its CSRF token, too."""

    openapi_type = "apiKey"
    openapi_in = "cookie"
    openapi_name = "adaexplore_session"
    openapi_description = "A signed-in browser; a POST needs the header X-CSRFToken"

    def __call__(self, request: HttpRequest) -> User | None:
        """The user of the session; None without one."""
        user = request.user
        if not isinstance(user, User) or not user.is_active:
            return None
        if check_csrf(request) is not None:
            raise AuthorizationError(message="The CSRF token is missing or wrong. Send X-CSRFToken, or use a token.")
        return user


def _refuse(request: HttpRequest) -> None:
    """A right token is never slowed: nobody can lock others out by trying wrong ones."""
    credentials, counted = {"username": NOBODY}, copy.copy(request)  # axes marks what it counts
    if not AxesProxyHandler.is_allowed(counted, credentials):
        raise HttpError(429, "Too many wrong tokens came from this address. Try again in a quarter of an hour.")
    log.warning("a request to the API had an unknown, revoked or expired token")
    user_login_failed.send(sender=__name__, credentials=credentials, request=counted)
    raise AuthenticationError(message="The token is unknown, revoked or expired. Issue another in Settings, Tokens.")


AUTH = (Token(), Session())
