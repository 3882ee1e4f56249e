"""The rows of the registry: an act, a place, a key that only moves the view."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from adaexplore_site.access import Role


@dataclass(frozen=True)
class Act:
    """One thing that a person can change. Just one of `inverse`, `confirm` and `stays` says what stands against
    a mistake: the act that takes it back, what asks before, or why neither is needed.

    `route` takes the POST, with the keyword arguments `takes` of the page's own address and the fields `fields`.
    `pages` are the routes whose page holds the form; `key` works there. With `own` the page's own script hears the key.
    With `tree` it is an act on one node, offered by the menu of the tree.
    """

    id: str
    label: str
    role: Role
    route: str
    verb: str  # of its row in the audit
    takes: tuple[str, ...] = ()
    fields: Mapping[str, str] = field(default_factory=dict)
    pages: tuple[str, ...] = ()
    key: str = ""
    own: bool = False
    tree: bool = False
    inverse: str = ""
    confirm: str = ""
    stays: str = ""

    def __post_init__(self) -> None:
        if sum(map(bool, (self.inverse, self.confirm, self.stays))) != 1:
            raise ValueError(f"{self.id}: give one of inverse, confirm and stays")
        if self.key and not self.pages:
            raise ValueError(f"{self.id}: a key needs the pages on which it works")


@dataclass(frozen=True)
class Place:
    """Somewhere to go. `here` begins the names of the routes that belong to it; with `bar` it stands in the bar."""

    id: str
    label: str
    route: str
    key: str = ""
    role: Role = Role.VIEWER
    bar: bool = False
    here: tuple[str, ...] = ()
    title: str = ""
    detail: str = ""  # what one finds there, for the palette


@dataclass(frozen=True)
class ViewKey:
    """A key that changes nothing but what its reader sees. Without `pages` it works everywhere."""

    key: str
    label: str
    pages: tuple[str, ...] = ()
