"""Sign-in: password form, one-time link, sign-out. The only pages visible to strangers."""

from __future__ import annotations

from typing import Any

from django.contrib.auth import views as auth_views
from django.urls import path

urlpatterns: list[Any] = [
    path("sign-in/", auth_views.LoginView.as_view(template_name="signin/sign_in.html"), name="sign-in"),
    path("sign-out/", auth_views.LogoutView.as_view(), name="sign-out"),
]
