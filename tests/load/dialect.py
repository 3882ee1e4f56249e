"""The built-in proposer's mistakes with and without rules, judged for real: python -m tests.load.dialect [steps each].

Eight samples on the interpreter, twice with the same seeds: without memory, then with one approved rule per mistake.
SQLite in a folder of its own; a few minutes on two cores.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections import Counter
from io import StringIO

SAMPLES = (
    *("bias_gelu_scale", "row_softmax", "layer_norm_gelu", "linear_relu_scale"),
    *("mish_gate_bf16", "swiglu", "residual_rms_norm", "linear_gelu_residual"),
)


def search(memory: str, steps: int) -> tuple[int, int]:
    """Valid and told nodes of a campaign over the samples; prints them by verdict and kind of step."""
    from django.core.management import call_command

    from search.batches.models import Campaign
    from search.records.models import Node

    choice = ("--steps-each", str(steps), "--seed", "1", "--memory", memory)
    quiet = {"stdout": StringIO(), "stderr": StringIO()}
    call_command("campaign", "start", "--problems", *SAMPLES, *choice, **quiet)
    runs = Campaign.objects.order_by("-pk").first().entries.values_list("run", flat=True)  # type: ignore[union-attr]
    told = Node.objects.filter(run__in=list(runs), state="told").exclude(kind="root")
    rows = list(told.values_list("evaluation__verdict", "kind"))
    good = Counter(kind for verdict, kind in rows if verdict == "pass")
    every = Counter(kind for _, kind in rows)
    kinds = ", ".join(f"{good[kind]} of {every[kind]} {kind}" for kind in sorted(every))
    print(f"--memory {memory}: {sum(good.values())} of {len(rows)} valid ({kinds})", flush=True)
    print(f"    {dict(Counter(str(verdict) for verdict, _ in rows).most_common())}", flush=True)
    return sum(good.values()), len(rows)


def main() -> None:
    steps = int(sys.argv[1]) if len(sys.argv) > 1 else 15
    with tempfile.TemporaryDirectory(prefix="adaexplore-dialect-") as folder:
        os.environ.update(ADAEXPLORE_DATA=folder, DATABASE_URL="", DJANGO_SETTINGS_MODULE="tests.settings")
        import django
        from django.conf import settings

        django.setup()
        settings.SEARCH_PROPOSERS = {"builtin": "tests.mistaken.MistakenProposer"}
        from django.core.management import call_command

        from memory.prompting.lift import Arms, difference
        from search.proposers.builtin.proposer import HABITS
        from tests.memory.prompt_rows import make_rule

        call_command("migrate", verbosity=0)
        call_command("seed_samples", verbosity=0)
        without = search("off", steps)
        for habit in HABITS:
            words = f"Avoid the mistake {habit.code}."
            make_rule(words, support=0, origin="person", pattern=habit.code)
        with_rules = search("reviewed", steps)
        found = difference([Arms(with_rules[1], with_rules[0], without[1], without[0])])
        assert found is not None
        print(f"difference {found[0]:+.3f}, 95 % interval {found[1]:+.3f} to {found[2]:+.3f}")


if __name__ == "__main__":
    main()
