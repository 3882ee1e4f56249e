"""Can the text of a would-be best be read for what it does? The last check: whatever it did before is told as such."""

from __future__ import annotations

from judge.bench.audit.setting import STAGE, Setting
from judge.bench.judging.completion import Ended
from judge.values import Verdict


def check_text(setting: Setting) -> None:
    """Raise Ended (`audit.text`) for a text that reaches into the interpreter or the judge, or hides its names."""
    if setting.reaches:
        raise Ended(
            Verdict.SUSPECT,
            STAGE,
            "audit.text",
            f"{'; '.join(setting.reaches)}. No kernel needs this: write names out, and use tensors, Triton and torch's "
            "public functions only",
        )
