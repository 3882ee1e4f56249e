"""`manage.py learn`: distils failures that nobody has learned from, and lists the rules with their sightings."""

from __future__ import annotations

import random
from functools import partial
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db.models import Count, Q, QuerySet
from django.utils import timezone

from adaexplore_site.core.llm import ChatClient, endpoint_from_settings
from adaexplore_site.core.text import one_line
from memory.adapt.models import AdaptRun
from memory.distil.distillers import Distiller, InstalledNames, ModelDistiller, TableDistiller
from memory.distil.services import facts_of, failure_learn
from memory.failures.models import Failure
from memory.rules.models import Rule
from search.batches.budgets import NoPrice, may_ask
from search.engine.spending import adapt_call_add
from search.ledger.models import Spending
from search.ledger.prices import call_of

SHOWN = 200


class Command(BaseCommand):
    help = (
        "Distil new failures into rules: by the table of known errors, or with --model what "
        "the table does not know by the model endpoint. The rules are proposed; a person reviews them."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--run", type=int, nargs="+", metavar="N", help="failures of these searches")
        parser.add_argument("--all", action="store_true", help="failures of all searches")
        parser.add_argument("--model", action="store_true", help="ask the model about errors that are not known")

    def handle(self, *args: Any, **options: Any) -> None:
        if bool(options["run"]) == options["all"]:
            raise CommandError("Say whose failures: --run with one or more numbers of searches, or --all.")
        failures = Failure.objects.all()
        if options["run"]:
            failures = failures.filter(run_id__in=options["run"])
        distiller = _distiller(with_model=options["model"])
        counts = {"rule": 0, "nothing": 0, "unfit": 0}
        waiting = failures.filter(lesson=Failure.Lesson.NONE)
        later, charged = 0, partial(adapt_call_add, kind=Spending.Kind.LESSON)
        for failure_id in list(waiting.order_by("pk").values_list("pk", flat=True)):
            if isinstance(distiller, ModelDistiller) and not _room_for(failure_id, distiller):
                later += 1
                continue
            learned = failure_learn(failure_id=failure_id, distiller=distiller, charged=charged)
            if learned is None:
                later += 1
            else:
                counts[learned.lesson.outcome] += 1
        self._tell(counts, later, distiller)
        self._rules(failures)

    def _tell(self, counts: dict[str, int], later: int, distiller: Distiller) -> None:
        self.stdout.write(
            f"{sum(counts.values())} failures distilled: {counts['rule']} support a rule, {counts['nothing']} hold "
            f"nothing to learn, {counts['unfit']} cannot support a rule; {later} left for later"
        )
        if isinstance(distiller, ModelDistiller):
            spent = distiller.spent
            untold = f" ({spent.untold} calls did not say)" if spent.untold else ""
            price = f"${spent.usd}" if spent.calls > spent.unpriced else "price unknown"
            more = f" ({spent.unpriced} calls unpriced)" if 0 < spent.unpriced < spent.calls else ""
            self.stdout.write(f"{spent.calls} calls of the model, {spent.tokens} tokens{untold}; {price}{more}")

    def _rules(self, failures: QuerySet[Failure]) -> None:
        rules = Rule.objects.filter(sightings__failure__in=failures).select_related("current").distinct()
        ids = list(rules.values_list("pk", flat=True))
        counted = Rule.objects.filter(pk__in=ids).annotate(
            seen=Count("sightings"), problems=Count("sightings__failure__problem", distinct=True)
        )
        shown = counted.select_related("current").order_by("-seen", "pk")
        self.stdout.write(f"{len(ids)} rules:")
        for rule in shown[:SHOWN]:
            claim = one_line(rule.current.text, 1000) if rule.current else ""
            self.stdout.write(f"  {rule.seen:5} sightings, {rule.problems:3} problems  {claim}")
        if len(ids) > SHOWN:
            self.stdout.write(f"  and {len(ids) - SHOWN} more")


def _room_for(failure_id: int, distiller: ModelDistiller) -> bool:
    """Whether the model need not be asked about it, or the limits of its adapt run have room for the call."""
    failure = Failure.objects.select_related("node__evaluation", "device").filter(pk=failure_id).first()
    mine = Q(entries__run__failures=failure_id) | Q(entries__control__failures=failure_id)
    adapt = AdaptRun.objects.select_related("device").filter(mine).exclude(limits={}).first()
    if failure is None or adapt is None or not distiller.asks(facts_of(failure)):
        return True
    try:
        return may_ask(adapt, timezone.now())
    except NoPrice:  # the run waits for one, and so does the failure
        return False


def _distiller(*, with_model: bool) -> Distiller:
    if not with_model:
        return TableDistiller(InstalledNames())
    endpoint = endpoint_from_settings()
    missing = endpoint.missing()
    if missing:
        raise CommandError(missing)
    return ModelDistiller(ChatClient(endpoint, rng=random.Random()), InstalledNames(), call_of)
