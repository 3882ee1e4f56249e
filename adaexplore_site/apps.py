"""App configuration of the site: creates the role groups after migrations."""

from __future__ import annotations

from typing import Any

from django.apps import AppConfig
from django.db.models.signals import post_migrate


def create_roles(**_: Any) -> None:
    """Make sure the four role groups exist. Idempotent."""
    from django.contrib.auth.models import Group

    from adaexplore_site.access import Role

    for role in Role:
        Group.objects.get_or_create(name=role.value)


class SiteConfig(AppConfig):
    name = "adaexplore_site"

    def ready(self) -> None:
        from django.apps import apps

        post_migrate.connect(create_roles, sender=apps.get_app_config("auth"), dispatch_uid="adaexplore_roles")
