"""A difference on a page: its parts with the addresses that open them, and those of every other way to look at it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlencode

from search.diffing.comparing import Diff, Options, Part

MOST_OPENED = 200
MOST_CHARS = 2_000  # of a parameter that is read


def options_of(query: Mapping[str, str], opened: str = "open") -> Options:
    """How to compare and show, from a query; `opened` names the parameter of the folds. Nonsense counts as nothing."""
    folds = query.get(opened, "")[:MOST_CHARS]
    numbers = [int(word) for word in folds.split(",") if word.isascii() and word.isdigit() and len(word) < 7]
    return Options(
        unified=query.get("view") == "unified",
        ignore_space=query.get("ws") == "ignore",
        opened=frozenset(numbers[:MOST_OPENED]),
        whole=folds == "all",
        large=bool(query.get("large")),
        plain=bool(query.get("plain")),
    )


def parameters(options: Options, opened: str = "open") -> dict[str, str]:
    """The inverse: every option spelled out."""
    return {
        "view": "unified" if options.unified else "split",
        "ws": "ignore" if options.ignore_space else "show",
        opened: "all" if options.whole else ",".join(map(str, sorted(options.opened))),
        "large": "1" if options.large else "",
    }


@dataclass(frozen=True)
class Shown:
    """A part of the table; a fold with the address that opens or closes it."""

    part: Part
    href: str


@dataclass(frozen=True)
class DiffView:
    """A difference with its addresses: `path` and the parameters `keep` lead to what is shown now.

    `old` and `new` name both texts, `lasting` are parameters that mean the same for ever, `downloads` (label, address)
    of both texts. `key` tells several differences of one page apart; `opened` names the parameter of this one's folds.
    """

    diff: Diff
    old: str
    new: str
    path: str
    keep: Mapping[str, str]
    lasting: Mapping[str, str]
    downloads: tuple[tuple[str, str], ...] = ()
    key: str = "diff"
    opened: str = "open"

    @property
    def link(self) -> str:
        """The address that shows exactly this to everybody, also when the best is another by then."""
        return self._with(**self.lasting)

    @property
    def query(self) -> str:
        """The parameters of what is shown now."""
        return self._with().partition("?")[2]

    @property
    def other_view(self) -> str:
        """Side by side becomes unified, and back."""
        return self._with(view="split" if self.diff.options.unified else "unified")

    @property
    def other_space(self) -> str:
        """Blanks count, or do not. Folds differ, so none stays open."""
        return self._with(ws="show" if self.diff.options.ignore_space else "ignore", **{self.opened: None})

    @property
    def whole(self) -> str:
        """All folds opened, or all closed again."""
        return self._with(**{self.opened: None if self.diff.options.whole else "all"})

    @property
    def on_demand(self) -> str:
        """A long difference after all."""
        return self._with(large="1")

    @property
    def parts(self) -> list[Shown]:
        """The table in order."""
        return [Shown(part, self._fold(part.number) if part.kind == "fold" else "") for part in self.diff.parts]

    @property
    def hidden_lines(self) -> list[tuple[str, str]]:
        """(name of the text, its first lines with hidden characters), for texts that have some."""
        found = ((self.old, self.diff.hidden_old), (self.new, self.diff.hidden))
        return [
            (name, ", ".join(map(str, lines[:12])) + (" …" if lines[12:] else "")) for name, lines in found if lines
        ]

    def _fold(self, number: int) -> str:
        options = self.diff.options
        opened = set(range(1, self.diff.folds + 1)) if options.whole else set(options.opened)
        folds = ",".join(map(str, sorted(opened ^ {number})))
        return f"{self._with(**{self.opened: folds})}#{self.key}-fold-{number}"

    def _with(self, **changes: str | None) -> str:
        kept = {key: value for key, value in {**self.keep, **changes}.items() if value}
        return f"{self.path}?{urlencode(kept, safe=',:')}"
