"""Where a rule holds. An empty part means anywhere. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.version import InvalidVersion, Version


class BadScope(ValueError):
    """The scope cannot be read. The message says what to write instead."""


@dataclass(frozen=True)
class Where:
    """What a prompt is written for: operator families of the problem, architecture ("sm_90"), Triton's version."""

    families: frozenset[str] = frozenset()
    arch: str = ""
    triton: str = ""


@dataclass(frozen=True)
class Scope:
    """`family` of operators, `arch` of a GPU, `triton` a range such as ">=3.4,<3.6". Raises BadScope."""

    family: str = ""
    arch: str = ""
    triton: str = ""

    def __post_init__(self) -> None:
        try:
            SpecifierSet(self.triton)
        except InvalidSpecifier:
            raise BadScope(f"{self.triton!r} is no range of versions. Write one such as >=3.4,<3.6.") from None

    @property
    def anywhere(self) -> bool:
        return not (self.family or self.arch or self.triton)

    def holds(self, where: Where) -> bool:
        """Whether a rule of this scope applies there. What is not known of a place satisfies no bound."""
        if self.family and self.family not in where.families:
            return False
        if self.arch and self.arch != where.arch:
            return False
        return not self.triton or self._holds_triton(where.triton)

    def _holds_triton(self, version: str) -> bool:
        try:
            return Version(version) in SpecifierSet(self.triton, prereleases=True)
        except InvalidVersion:
            return False
