"""System checks of the judge's settings: run by every management command."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.core.checks import CheckMessage, Error, register

from judge.bench.sandboxing.minimum import AUTO, LAYERS, required_layers


@register()
def minimum_sandbox_names_layers(app_configs: Any, **_: Any) -> list[CheckMessage]:
    """judge.E001: JUDGE_MIN_SANDBOX names a layer that does not exist, so nothing could ever run."""
    try:
        required_layers(settings.JUDGE_MIN_SANDBOX)
    except ValueError as error:
        hint = f"Write {AUTO}, or some of {', '.join(LAYERS)}, separated by commas."
        return [Error(f"JUDGE_MIN_SANDBOX: {error}", hint=hint, id="judge.E001")]
    return []
