"""Refused requests are a line of the log, errors keep their stack."""

from __future__ import annotations

import logging
import sys

import pytest

from adaexplore_site.core.log_filters import NoTraceOfRefusals


@pytest.mark.parametrize(
    ("name", "level", "status", "kept"),
    [
        ("django.request", logging.WARNING, 403, False),
        ("django.request", logging.ERROR, 500, True),
        ("django.request", logging.ERROR, 503, False),
        ("celery", logging.WARNING, None, True),
    ],
)
def test_only_what_was_refused_loses_its_stack(name, level, status, kept):
    try:
        raise PermissionError("no")
    except PermissionError:
        record = logging.LogRecord(name, level, __file__, 1, "refused", (), sys.exc_info())
    record.status_code = status
    assert NoTraceOfRefusals().filter(record)
    assert ("PermissionError" in logging.Formatter().format(record)) is kept
