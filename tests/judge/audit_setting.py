"""A stand-in for the setting of an audit, for tests of what the audit decides."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from judge.bench.judging.completion import Ended
from judge.values import Finding, Library, Verdict


class Audited(SimpleNamespace):
    """Stands in for a Setting: keeps what is noted."""

    def __init__(self, **given: object) -> None:
        plain = {"library": Library.LABEL, "device": "cpu", "findings": [], "defined": {}, "reaches": []}
        super().__init__(**plain | given)

    def note(self, code: str, message: str, **data: object) -> None:
        self.findings.append(Finding(code, message, data))

    @property
    def codes(self) -> list[str]:
        return [one.code for one in self.findings]


def ended(step) -> tuple[Verdict, str, str]:
    with pytest.raises(Ended) as caught:
        step()
    return caught.value.verdict, caught.value.stage, caught.value.reason
