"""Refused requests are a line of the log, errors keep their stack."""

from __future__ import annotations

import logging
import sys

import pytest

from adaexplore_site.log_filters import NoTraceOfRefusals


@pytest.mark.parametrize(
    ("name", "level", "kept"),
    [
        ("django.request", logging.WARNING, False),
        ("django.request", logging.ERROR, True),
        ("celery", logging.WARNING, True),
    ],
)
def test_only_what_was_refused_loses_its_stack(name, level, kept):
    try:
        raise PermissionError("no")
    except PermissionError:
        record = logging.LogRecord(name, level, __file__, 1, "refused", (), sys.exc_info())
    assert NoTraceOfRefusals().filter(record)
    assert ("PermissionError" in logging.Formatter().format(record)) is kept
