"""The address of a form is told by its action alone."""

from __future__ import annotations

from collections import defaultdict

from django.urls import resolve, reverse

from adaexplore_site.actions import registry
from adaexplore_site.actions.action import Action


def _by_address() -> dict[tuple[str, str], list[Action]]:
    found: dict[tuple[str, str], list[Action]] = defaultdict(list)
    for row in registry.actions():
        if row.path:
            found[row.path, row.route].append(row)
    return found


def test_every_named_address_leads_to_the_route_of_its_action():
    for (path, route), rows in _by_address().items():
        parts = {part: "abc" if part == "key" else 7 for part in rows[0].takes}
        address = reverse(route, kwargs=parts)
        assert resolve(address).route == path, route
        assert set(parts) == set(resolve(address).kwargs), route


def test_actions_that_share_an_address_differ_in_one_field():
    shared = {address: rows for address, rows in _by_address().items() if len(rows) > 1}
    assert any(path == "s/<int:run_id>/steer" for path, _ in shared)
    for address, rows in shared.items():
        assert len({tuple(row.sends) for row in rows}) == 1, address
        values = [value for row in rows for value in row.sends.values()]
        assert len(values) == len(set(values)) == len(rows), address
