"""`manage.py signin_link`: print a one-time sign-in link, for the first admin or for a user of a role."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from adaexplore_site.accounts import signin
from adaexplore_site.core.access import Role


class Command(BaseCommand):
    help = "Print a one-time sign-in link. With --user, that account is created when new and given --role."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--user", help="account name (default: the first admin)")
        parser.add_argument("--role", choices=[role.value for role in Role], default=Role.VIEWER.value)
        parser.add_argument("--address", default="", help="address of the site (default: where `up` serves it)")

    def handle(self, *, user: str | None, role: str, address: str, **_: Any) -> None:
        if user is not None and not user.strip():
            raise CommandError("--user needs a name, for example: --user ada --role operator")
        account = signin.user_ensure(name=user.strip(), role=Role(role)) if user else signin.first_admin()
        self.stdout.write((address.rstrip("/") or signin.address_of_site()) + signin.link_path(account))
