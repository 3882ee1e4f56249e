"""Moves the mark until which a person has seen notifications."""

from __future__ import annotations

from datetime import datetime

from django.contrib.auth.models import User

from adaexplore_site.notifications.models import NoticeMark


def notice_mark_set(*, user: User, until: datetime) -> None:
    """The mark never goes back: of two pages the later one counts."""
    mark, created = NoticeMark.objects.get_or_create(user=user, defaults={"seen_at": until})
    if not created:
        NoticeMark.objects.filter(pk=mark.pk, seen_at__lt=until).update(seen_at=until)
