"""What a log line leaves out."""

from __future__ import annotations

import logging


class NoTraceOfRefusals(logging.Filter):
    """A refused request is one line: its stack says nothing that the address does not, and hides real errors."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Keep every record; those of refused requests without their stack."""
        if record.name == "django.request" and record.levelno < logging.ERROR:
            record.exc_info = record.exc_text = None
        return True
