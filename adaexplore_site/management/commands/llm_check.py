"""Asks the configured model endpoint one tiny question and says what to fix if that fails."""

from __future__ import annotations

import random
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from adaexplore_site.core.llm import ChatClient, LLMError, Retry, endpoint_from_settings

QUESTION = [{"role": "user", "content": "Answer with the single word: ready"}]


class Command(BaseCommand):
    help = (
        "One tiny call to the endpoint of LLM_BASE_URL, LLM_API_KEY, LLM_MODEL: model, latency, tokens or what to fix."
    )

    def handle(self, *args: Any, **options: Any) -> None:
        endpoint = endpoint_from_settings()
        client = ChatClient(endpoint, rng=random.Random(), retry=Retry(attempts=1))
        try:
            answer = client.complete(QUESTION)
        except LLMError as error:
            again = "" if error.permanent else " (this may pass: try again)"
            raise CommandError(f"{error}{again}") from None
        counts = [f"{value} {name}" for name, value in (("in", answer.tokens_in), ("out", answer.tokens_out)) if value]
        self.stdout.write(f"endpoint  {endpoint.shown} ({'streaming' if endpoint.stream else 'plain'})")
        self.stdout.write(f"model     {answer.model}")
        self.stdout.write(f"latency   {answer.latency_ms:.0f} ms")
        self.stdout.write(f"tokens    {', '.join(counts) or 'not reported by the endpoint'}")
        self.stdout.write(f"reply     {answer.text[:80]!a}" + ("" if answer.text else f" ({answer.finish_reason})"))
