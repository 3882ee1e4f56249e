"""`manage.py llm_check`: what it prints when the endpoint answers, and what it says to fix when not."""

from __future__ import annotations

import io

import pytest
from django.core.management import CommandError, call_command

from tests.llm_stub import Step, StubLLM


def check(settings, stub: StubLLM) -> str:
    settings.LLM_BASE_URL, settings.LLM_API_KEY, settings.LLM_MODEL = stub.url, "sk-secret-0123456789", "tiny"
    out = io.StringIO()
    call_command("llm_check", stdout=out)
    return out.getvalue()


def test_it_prints_model_latency_and_tokens(settings):
    with StubLLM([Step(text="ready")]) as stub:
        said = check(settings, stub)
    for part in (stub.url, "tiny", " ms", "11 in, 7 out", "'ready'"):
        assert part in said


@pytest.mark.parametrize(("status", "word"), [("401", "LLM_API_KEY"), ("404", "LLM_MODEL"), ("500", "try again")])
def test_it_says_what_to_fix_and_never_the_key(settings, status, word):
    with StubLLM([Step(status, echo=True)]) as stub, pytest.raises(CommandError, match=word) as caught:
        check(settings, stub)
    assert "sk-secret" not in str(caught.value)
    assert len(stub.requests) == 1


def test_without_settings_it_says_which_to_set(settings):
    settings.LLM_BASE_URL, settings.LLM_API_KEY, settings.LLM_MODEL = "", "", ""
    with pytest.raises(CommandError, match="LLM_API_KEY and LLM_MODEL"):
        call_command("llm_check")
