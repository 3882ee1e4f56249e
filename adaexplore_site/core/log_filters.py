"""What a log line leaves out."""

from __future__ import annotations

import logging


class NoTraceOfRefusals(logging.Filter):
    """A refused request is one line: its stack says nothing that the address does not, and hides real errors."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Keep every record; those of requests that were refused or answered 503, without their stack."""
        refused = record.levelno < logging.ERROR or getattr(record, "status_code", 0) == 503
        if record.name == "django.request" and refused:
            record.exc_info = record.exc_text = None
        return True
