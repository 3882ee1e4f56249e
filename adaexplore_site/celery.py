"""The Celery application: one I/O queue, one queue per device."""

from __future__ import annotations

import os

from celery import Celery

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "adaexplore_site.settings")

app = Celery("adaexplore")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks()
