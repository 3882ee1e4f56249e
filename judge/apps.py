"""App configuration of `judge`."""

from django.apps import AppConfig


class JudgeConfig(AppConfig):
    name = "judge"

    def ready(self) -> None:
        """Register the system checks."""
        from judge.devices import system_checks as checks  # noqa: F401 - importing it registers them
