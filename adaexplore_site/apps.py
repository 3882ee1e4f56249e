"""App configuration of the site: creates the role groups after migrations."""

from __future__ import annotations

from typing import Any

from django.apps import AppConfig
from django.db.models.signals import post_migrate


def create_roles(**_: Any) -> None:
    """Make sure the four role groups exist. Idempotent."""
    from django.contrib.auth.models import Group

    from adaexplore_site.core.access import Role

    for role in Role:
        Group.objects.get_or_create(name=role.value)


class SiteConfig(AppConfig):
    name = "adaexplore_site"

    def ready(self) -> None:
        """Register the system checks, and the roles that follow a migration."""
        from django.apps import apps

        from adaexplore_site.actions.registry import discover
        from adaexplore_site.operations import checks  # noqa: F401 - importing it registers them

        post_migrate.connect(create_roles, sender=apps.get_app_config("auth"), dispatch_uid="adaexplore_roles")
        discover()
