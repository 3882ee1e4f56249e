"""What memory costs: freezing, a reservation, a page, with many rules and many uses. python -m tests.load.rules_cost.

Milliseconds of one core (processor time), medians; SQLite in a folder of its own unless DATABASE_URL names another.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Callable
from statistics import median

RULES, USES = 2000, 20_000
WORDS = "Rule {}: you cannot call that function in a Triton kernel; write another."


def milliseconds(act: Callable[[], object], times: int = 7) -> float:
    spent = []
    for _ in range(times):
        begun = time.process_time()
        act()
        spent.append(1e3 * (time.process_time() - begun))
    return median(spent)


def fill() -> None:
    """Rules seen on three problems each, and told nodes at which some of them were shown or withheld."""
    from memory.prompting.choices import MemoryChoice
    from memory.prompting.models import RuleUse
    from memory.rules.models import RuleVersion, Sighting
    from tests.memory.prompt_rows import failed_run, make_rule, see
    from tests.memory.prompting.test_lift import shares
    from tests.search.makers import make_run

    run = failed_run()
    first = make_rule(WORDS.format(0), support=0)
    for place in range(3):
        see(first, run, place)
    failures = [one.failure_id for one in Sighting.objects.filter(rule=first)]
    rules = [make_rule(WORDS.format(at), support=0) for at in range(1, RULES)]
    Sighting.objects.bulk_create(Sighting(rule=rule, failure_id=failure) for rule in rules for failure in failures)
    told = make_run(memory=MemoryChoice(uses=False), steps=5000)
    shares(told, first, (300, 360), (20, 40))
    nodes = list(told.nodes.filter(kind="large").values_list("pk", flat=True))
    RuleUse.objects.bulk_create(
        (
            RuleUse(node_id=node, rule=rule, version_id=rule.current_id, arm="withheld" if at % 10 == 0 else "shown")
            for at, node in enumerate(nodes)
            for rule in rules[: USES // len(nodes)]
        ),
        batch_size=2000,
    )
    print(f"{RuleVersion.objects.count()} rules, {Sighting.objects.count()} sightings, {RuleUse.objects.count()} uses")


def measure() -> None:
    from django.db import transaction
    from django.test import Client

    from memory.prompting.choices import OFF, MemoryChoice
    from memory.prompting.lift import lifts_of
    from memory.prompting.models import FrozenRule, RuleUse
    from memory.rules.models import Rule
    from search.engine.steps import step_reserve
    from search.live.frames import panels_html
    from search.nodes.page import prompt_rules, rules_panel
    from tests.pages import client_of
    from tests.search.makers import make_run

    ids = list(Rule.objects.values_list("pk", flat=True))
    print(f"lifts of {len(ids)} rules          {milliseconds(lambda: lifts_of(ids)):8.1f} ms")
    for name, choice in (("without memory", OFF), ("with 2,000 rules", MemoryChoice())):
        print(f"start of a search {name:18} {milliseconds(lambda choice=choice: make_run(memory=choice)):6.1f} ms")

    def reserve(choice: MemoryChoice, at_once: int) -> float:
        spent = []
        for seed in range(15):
            run = make_run(memory=choice, concurrency=at_once, steps=50, seed=seed)
            begun = time.process_time()
            step_reserve(run_id=run.pk)
            spent.append(1e3 * (time.process_time() - begun))
        return median(spent)

    for at_once in (1, 8):
        for name, choice in (("without memory", OFF), ("with rules", MemoryChoice())):
            print(f"reservation of {at_once}, {name:16} {reserve(choice, at_once):8.1f} ms")
    run = make_run(memory=MemoryChoice(), concurrency=8, steps=50)
    with transaction.atomic():
        step_reserve(run_id=run.pk)
    node = run.nodes.get(number=1)
    held = FrozenRule.objects.filter(memory__run=run).count()
    arms = {arm: RuleUse.objects.filter(node=node, arm=arm).count() for arm in ("shown", "withheld", "left_out")}
    print(f"kept for the search: {held}; at its first node: {arms}")
    print(f"panel of rules, page only        {milliseconds(lambda: rules_panel(run)):8.1f} ms")
    print(f"rules of a node, page only       {milliseconds(lambda: prompt_rules(node)):8.1f} ms")
    print(f"panels of a live frame           {milliseconds(lambda: panels_html(run)):8.1f} ms")
    client: Client = client_of("viewer")
    bare = make_run(memory=OFF, concurrency=8, steps=50)
    step_reserve(run_id=bare.pk)
    for name, one in (("without memory", bare), ("with rules", run)):
        print(f"page of a search {name:16} {milliseconds(lambda one=one: client.get(f'/s/{one.pk}/')):8.1f} ms")


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="adaexplore-rules-") as folder:
        os.environ.update(ADAEXPLORE_DATA=folder, DJANGO_SETTINGS_MODULE="tests.settings")
        os.environ.setdefault("DATABASE_URL", "")
        import django

        django.setup()
        from django.core.management import call_command
        from django.test.utils import setup_test_environment

        setup_test_environment()
        call_command("migrate", verbosity=0)
        fill()
        measure()


if __name__ == "__main__":
    sys.exit(main())
