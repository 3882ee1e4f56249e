"""Kernels that provoke known errors: what the judge would say of each is the error it stands under."""

import contextlib
import tempfile
from pathlib import Path

import torch

from judge.bench.exchange.contact import SubjectFailed
from judge.bench.foreign.faults import describe_fault
from judge.bench.foreign.loading import LoadError, load_candidate
from judge.bench.judging.completion import of_candidate
from memory.patterns.table import match_of
from tests.judge.provocations import COMPILE, INTERPRET


def check_every_kernel_provokes_its_error(tool):
    compiles = hasattr(tool, "recording")
    recording = tool.recording if compiles else contextlib.nullcontext
    said = {code: _said(source, recording) for code, source in (COMPILE if compiles else INTERPRET).items()}
    others = {code: words for code, words in said.items() if _code(*words) != code}
    assert others == {}, others


def _code(reason, message):
    found = match_of(reason, message)
    return found.pattern.code if found is not None else ""


def _said(source, recording):
    """Reason code and message in the judge's words; empty when nothing failed."""
    folder = Path(tempfile.mkdtemp())
    try:
        model = load_candidate(source, folder)()
        with recording():
            model(torch.rand(64, 64))
    except LoadError as error:
        return error.reason, error.message
    except Exception as error:  # noqa: BLE001 - what it raises is what is asked for
        fault = describe_fault(error, folder / "candidate.py")
        failed = SubjectFailed("candidate", fault["kind"], "forward", fault["message"], fault["reason"])
        ended = of_candidate(failed, "smoke")
        return ended.reason, ended.message
    return "", ""
