"""Near-duplicates and contradictions among all rules, found through the names and words they share. Pure."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property, lru_cache

from memory.rules.scopes import Scope
from memory.rules.wording import NEAR, Wording, likeness, share, wording

AGAINST = 0.6  # share of common names, or of words, above which sentences of opposite sign contradict each other
COMMON = 64  # a word or name of more rules than this says too little to look at all of them for it
MOST = 5  # near-duplicates and contradictions told of one rule


@dataclass(frozen=True)
class Said:
    """What a rule says and where it holds."""

    id: int
    text: str
    scope: Scope = field(default_factory=Scope)


@dataclass
class Likeness:
    """Built once for a set of rules; `near` and `against` then look at those only that share something rare."""

    rules: dict[int, tuple[Wording, Scope]] = field(default_factory=dict)
    places: dict[str, list[int]] = field(default_factory=lambda: defaultdict(list))

    def near(self, rule_id: int) -> list[tuple[int, float]]:
        """Other rules of the same sign that nearly say the same, the likest first."""
        own, _ = self.rules[rule_id]
        found = [
            (other, like)
            for other in self._sharing(rule_id)
            if self.rules[other][0].forbids == own.forbids and (like := likeness(own, self.rules[other][0])) >= NEAR
        ]
        return sorted(found, key=lambda pair: (-pair[1], pair[0]))[:MOST]

    def against(self, rule_id: int) -> list[int]:
        """Rules that ask for what this one forbids, or forbid what it asks for, where both can hold."""
        own, scope = self.rules[rule_id]
        return [
            other
            for other in sorted(self._sharing(rule_id))
            if self.rules[other][0].forbids != own.forbids
            and share(self.rules[other][0].names, own.names) >= AGAINST
            and share(self.rules[other][0].words, own.words) >= (AGAINST if not own.names else AGAINST / 2)
            and scopes_meet(scope, self.rules[other][1])
        ][:MOST]

    @cached_property
    def torn(self) -> frozenset[int]:
        """Every rule that another one contradicts."""
        signs = Counter(own.forbids for own, _ in self.rules.values())
        fewer = signs[True] < signs[False]
        pairs = ((pk, self.against(pk)) for pk, (own, _) in self.rules.items() if own.forbids == fewer)
        return frozenset(pk for one, others in pairs if others for pk in (one, *others))

    def _sharing(self, rule_id: int) -> set[int]:
        """Rules with a name in common, or a word when this one names nothing; very common ones lead nowhere alone."""
        own, _ = self.rules[rule_id]
        keys = [self.places[key] for key in _keys(own)]
        rare = [place for place in keys if len(place) <= COMMON] or sorted(keys, key=len)[:1]
        return {pk for place in rare for pk in place[: 4 * COMMON]} - {rule_id}


@lru_cache(maxsize=4)
def likeness_of(said: tuple[Said, ...]) -> Likeness:
    """The index of these rules. Cached: pages ask again for the same rules until one is written or reworded."""
    made = Likeness()
    for rule in said:
        own = wording(rule.text)
        made.rules[rule.id] = (own, rule.scope)
        for key in _keys(own):
            made.places[key].append(rule.id)
    return made


def _keys(own: Wording) -> Iterable[str]:
    return own.names or {f" {word}" for word in own.words}


def scopes_meet(a: Scope, b: Scope) -> bool:
    """Whether there may be a place where both hold: each part is the same, or one of the two says any."""
    pairs = ((a.family, b.family), (a.arch, b.arch), (a.triton, b.triton))
    return all(not one or not other or one == other for one, other in pairs)
