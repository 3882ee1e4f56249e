"""System checks of the installation: run by every management command."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.checks import CheckMessage, Tags, Warning, register

from adaexplore_site.core import private_files


@register(Tags.security)
def data_folder_is_private(app_configs: Any, **_: Any) -> list[CheckMessage]:
    """adaexplore.W001: other accounts of this machine can read the data folder, or it belongs to one of them."""
    found = private_files.faults(Path(settings.DATA_DIR))
    return [Warning(what, hint=hint, id="adaexplore.W001") for what, hint in found]
