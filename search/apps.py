"""App configuration of `search`."""

from django.apps import AppConfig


class SearchConfig(AppConfig):
    name = "search"

    def ready(self) -> None:
        """Register who hears of quarantined problems."""
        from search.engine import problems  # noqa: F401 - importing it registers the receiver
