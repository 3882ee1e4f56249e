"""Does the lift estimate tell the truth? Coverage of its interval, and planted effects through the whole road.

`python -m tests.load.lift [seeds] [steps]`: a model server of known failure rates is asked over HTTP by the real
proposer with real prompts; reservation, dealing of rules, telling and lift are the product's. SQLite in a folder of
its own.
"""

from __future__ import annotations

import os
import random
import sys
import tempfile
import time
from collections import Counter

import numpy

from memory.prompting.lift import Arms, difference

ARMS = ((270, 30), (900, 100), (60, 40), (30, 30))
LOOKS = (
    (0.5, 0.5, 0.1, 2000),
    (0.1, 0.1, 0.4, 2000),
    (0.75, 0.5, 0.4, 150),
    (0.75, 0.5, 0.4, 600),
    (0.6, 0.4, 0.1, 2000),
)
SHARES = ((0.5, 0.3), (0.95, 0.85), (0.1, 0.1), (0.7, 0.9), (0.02, 0.1), (0.99, 0.99))


def coverage(shown: float, withheld: float, *, n: int, m: int, trials: int, seed: int = 1) -> float:
    """Share of simulated experiments whose 95 % interval holds the true difference."""
    draw = numpy.random.default_rng(seed)
    held = 0
    for k, j in zip(draw.binomial(n, shown, trials), draw.binomial(m, withheld, trials), strict=True):
        found = difference([Arms(n, int(k), m, int(j))])
        held += found is not None and found[1] <= shown - withheld <= found[2]
    return held / trials


def recover(seeds: int, steps: int) -> None:
    """Print how often the planted effects lie in their intervals, and how the three rules are judged."""
    from tests.llm_stub import StubLLM
    from tests.load.planted import EFFECTS, asking, planted

    held: Counter[str] = Counter()
    called: Counter[tuple[str, str]] = Counter()
    arms: Counter[str] = Counter()
    errors = dict.fromkeys(EFFECTS, 0.0)
    begun = time.monotonic()
    with StubLLM() as stub:
        proposer = asking(stub)
        for seed in range(seeds):
            _, lifts = planted(seed, steps=steps, stub=stub, proposer=proposer)
            for name, lift in lifts.items():
                arms[name] += lift.withheld
                if lift.estimate is None or lift.low is None or lift.high is None:
                    called[name, "not known"] += 1
                    continue
                held[name] += lift.low <= EFFECTS[name] <= lift.high
                errors[name] += lift.estimate - EFFECTS[name]
                called[name, "helpful" if lift.helpful else "harmful" if lift.harmful else "undecided"] += 1
            stub.requests.clear()
            if seed % 10 == 9:
                print(f"{seed + 1} seeds, {time.monotonic() - begun:.0f} s", file=sys.stderr, flush=True)
    print("| planted | recovered | mean error | withheld a seed | called helpful | harmful | undecided | not known |")
    print("|---|---|---|---|---|---|---|---|")
    for name, effect in EFFECTS.items():
        words = [called[name, word] for word in ("helpful", "harmful", "undecided", "not known")]
        row = [
            f"{held[name]} of {seeds}",
            f"{errors[name] / seeds:+.3f}",
            f"{arms[name] / seeds:.0f}",
            *map(str, words),
        ]
        print(f"| {effect:+.2f} ({name}) | {' | '.join(row)} |")
    print(f"\n{seeds} seeds of {steps} steps in {time.monotonic() - begun:.0f} s")


def simulate(trials: int = 20_000) -> None:
    """Print the coverage for arms and shares that occur."""
    print(f"| shown, withheld | {' | '.join(f'{n} and {m} nodes' for n, m in ARMS)} |")
    print("|---" * (1 + len(ARMS)) + "|")
    for shown, withheld in SHARES:
        row = [coverage(shown, withheld, n=n, m=m, trials=trials) for n, m in ARMS]
        print(f"| {shown}, {withheld} | {' | '.join(f'{share:.3f}' for share in row)} |", flush=True)


def assign_often(seeds: int, steps: int) -> None:
    """Print the same recovery without HTTP and rows, over many seeds: assignment, model, lift."""
    from memory.prompting.assignment import TREATMENT, FrozenRules, PromptRule
    from memory.prompting.lift import Lift
    from tests.load.planted import BASE, CHOICE, EFFECTS

    names, held, known, called = list(EFFECTS), Counter[str](), Counter[str](), Counter[str]()
    for seed in range(seeds):
        hashes = [f"Rule {seed} {name}." for name in names]
        rules = tuple(PromptRule(text, version=at, text_hash=text) for at, text in enumerate(hashes))
        frozen = FrozenRules(rules, CHOICE.withhold, 1500)
        rng, counts = random.Random(seed), {name: [0, 0, 0, 0] for name in names}
        for number in range(1, steps + 1):
            arms = frozen.arms(seed=seed, number=number)
            shown = {names[rule.version] for rule, arm in arms if arm == TREATMENT}
            right = rng.random() < BASE + sum(EFFECTS[name] for name in shown)
            for name, count in counts.items():
                arm = 0 if name in shown else 2
                count[arm] += 1
                count[arm + 1] += right
        for name, count in counts.items():
            lift = Lift.of([Arms(*count)], among=len(EFFECTS))
            known[name] += lift.known
            called[name] += lift.harmful or lift.helpful
            held[name] += lift.low is not None and lift.high is not None and lift.low <= EFFECTS[name] <= lift.high
    for name in names:
        print(
            f"{EFFECTS[name]:+.2f} ({name}): {held[name] / known[name]:.3f} of {known[name]} known, of {seeds} seeds; "
            f"{called[name]} called helpful or harmful"
        )


def looks(shown: float, withheld: float, *, share: float, nodes: int, seeds: int, every: int = 10) -> tuple[float, ...]:
    """Share of rules that a look after every `every` nodes ever calls: by the plain interval, and by the sure one."""
    from memory.prompting.lift import Lift

    plain = sure = 0
    for seed in range(seeds):
        rng, counts, called = random.Random(seed), [0, 0, 0, 0], [False, False]
        for node in range(1, nodes + 1):
            arm = 2 if rng.random() < share else 0
            counts[arm] += 1
            counts[arm + 1] += rng.random() < (withheld if arm else shown)
            if node % every == 0:
                lift = Lift.of([Arms(*counts)])
                called[0] |= lift.leans or lift.helpful or lift.harmful
                called[1] |= lift.helpful or lift.harmful
        plain, sure = plain + called[0], sure + called[1]
    return plain / seeds, sure / seeds


def look_often() -> None:
    """Print what looking after every tenth node does."""
    print("| with, without | withheld | nodes | plain interval | sure interval |")
    print("|---|---|---|---|---|")
    for shown, withheld, share, nodes in LOOKS:
        plain, sure = looks(shown, withheld, share=share, nodes=nodes, seeds=1000)
        print(f"| {shown}, {withheld} | {share:.0%} | {nodes} | {plain:.3f} | {sure:.3f} |", flush=True)


def main() -> None:
    seeds, steps = (int(text) for text in (sys.argv[1:] + ["100", "150"][len(sys.argv) - 1 :])[:2])
    with tempfile.TemporaryDirectory(prefix="adaexplore-lift-") as folder:
        os.environ.update(ADAEXPLORE_DATA=folder, DATABASE_URL="", DJANGO_SETTINGS_MODULE="tests.settings")
        import django

        django.setup()
        from django.core.management import call_command

        call_command("migrate", verbosity=0)
        print(f"Coverage of the 95 % interval, {20_000} experiments each\n")
        simulate()
        print("\nCalled at any of many looks, 1,000 rules each\n")
        look_often()
        print("\nPlanted effects\n")
        recover(seeds, steps)
        print("\nThe same without HTTP and rows, 3,000 seeds\n")
        assign_often(3000, steps)


if __name__ == "__main__":
    main()
