"""App configuration of `judge`."""

from django.apps import AppConfig


class JudgeConfig(AppConfig):
    name = "judge"
