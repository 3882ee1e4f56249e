"""Books of a budget: however steps begin, cost and end, spent + reserved stays within every hard limit."""

from __future__ import annotations

from decimal import Decimal

from hypothesis import given
from hypothesis import strategies as st

from search.ledger.limits import Amounts, Entry, Ledger, RunLimits, kept, places, step_hold

LIMITS = RunLimits(
    steps=12,
    evaluations=9,
    device_s=30,
    tokens=5000,
    usd=Decimal("0.5"),
    step_device_s=4,
    step_tokens=700,
    step_usd=Decimal("0.06"),
)
HELD = step_hold(LIMITS, Ledger())


def cost(share: float, judged: bool, unknown: bool) -> dict[str, object]:
    """What a step used: at most what it held."""
    used = Amounts(
        1,
        int(judged),
        int(HELD.device_ms * share),
        int(HELD.tokens * share),
        (HELD.usd * Decimal(share)).quantize(Decimal("0.000001"), "ROUND_DOWN"),
    )
    return {"used": used, "tokens_unknown": unknown, "usd_unknown": unknown}


shares = st.builds(cost, st.floats(0, 1), st.booleans(), st.booleans())
acts = st.lists(st.tuples(st.sampled_from(["ask", "tell", "cancel"]), st.integers(0, 40), shares), max_size=60)


@given(acts)
def test_spent_and_reserved_stay_within_every_limit_at_every_event(acts):
    entries: list[Entry] = []
    for act, place, used in acts:
        open_places = [k for k, entry in enumerate(entries) if entry.open]
        if act == "ask":
            ledger = Ledger.of(entries)
            room = places(LIMITS, ledger, 1 + place % 8)
            entries += [Entry(True, step_hold(LIMITS, ledger), Amounts())] * room.count
        elif open_places:
            k = open_places[place % len(open_places)]
            entries[k] = ended(entries[k], act, used)
        assert kept(LIMITS, Ledger.of(entries))


def ended(entry: Entry, act: str, used: dict[str, object]) -> Entry:
    if act == "cancel":
        return Entry(False, entry.held, Amounts())
    return Entry(False, entry.held, **used)


@given(acts)
def test_nothing_is_reserved_once_all_have_ended(acts):
    entries = [ended(Entry(True, HELD, Amounts()), act, used) for act, _, used in acts]
    assert Ledger.of(entries).reserved == Amounts()


def test_near_the_limit_fewer_steps_begin():
    ledger = Ledger(spent=Amounts(steps=7, evaluations=6))
    assert places(LIMITS, ledger, 8).count == 3


def test_the_kind_without_room_is_named():
    assert places(LIMITS, Ledger(spent=Amounts(tokens=4400)), 8).bound == "tokens"


def test_a_step_that_cost_more_raises_what_the_next_ones_hold():
    dear = Ledger.of([Entry(False, HELD, Amounts(1, 1, 9000, 900, Decimal("0.2")))])
    assert step_hold(LIMITS, dear).tokens == 900
    assert places(LIMITS, dear, 8).count == 1  # 0.3 dollars left, 0.2 held a step


def test_an_unknown_price_counts_as_what_was_held_never_as_nothing():
    entry = Entry(False, HELD, Amounts(steps=1), usd_unknown=True)
    assert entry.spent.usd == HELD.usd


def test_a_step_that_costs_more_than_it_held_lets_nothing_pass_it_by():
    over = Entry(True, HELD, Amounts(tokens=900))
    assert over.reserved.tokens == 0 and over.spent.tokens == 900


@given(st.builds(Amounts, *[st.integers(0, 10**9)] * 4, st.decimals(0, 10**6, places=6)))
def test_amounts_come_back_from_json(amounts):
    assert Amounts.from_json(amounts.to_json()) == amounts
