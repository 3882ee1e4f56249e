"""Wiring: settings, urls, asgi, celery, and the leaves `env`, `access` and `llm`."""

from adaexplore_site.celery import app as celery_app

__all__ = ["celery_app"]
