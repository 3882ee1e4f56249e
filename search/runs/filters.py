"""What the list of searches is narrowed to, in which order, and how its pages go on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from django.db.models import Q, QuerySet
from django.urls import reverse

from judge.devices.models import Device
from search.records.models import Run

ADAPT, ARCHIVED = "adapt", "archived"  # tabs of their own: what stands there is in no other
TABS = {
    "": ("All", ()),
    "running": ("Running", ("running", "stopping")),
    "paused": ("Paused", ("paused",)),
    "ended": ("Ended", tuple(state.value for state in Run.ENDED)),
    ADAPT: ("Of adapt runs", ()),
    ARCHIVED: ("Archived", ()),
}
SORTS = {"": "newest first", "oldest": "oldest first", "problem": "by problem"}


@dataclass(frozen=True)
class RunFilter:
    """Unknown values narrow nothing. `before` is the last search of the page before."""

    state: str = ""
    q: str = ""
    device: str = ""
    sort: str = ""

    @classmethod
    def of(cls, given: Mapping[str, str]) -> RunFilter:
        """Out of a query string."""
        state, sort = given.get("state", ""), given.get("sort", "")
        return cls(
            state=state if state in TABS else "",
            q=given.get("q", "").strip()[:80],
            device=given.get("device", "")[:60],
            sort=sort if sort in SORTS else "",
        )

    @property
    def narrows(self) -> bool:
        return bool(self.q or self.device or self.state)

    def url(self, **changes: object) -> str:
        """The list with some of its choices changed."""
        now = {"state": self.state, "q": self.q, "device": self.device, "sort": self.sort, **changes}
        kept = {name: value for name, value in now.items() if value}
        return reverse("run-list", query=kept) if kept else reverse("run-list")

    def runs(self, before: int | None = None) -> QuerySet[Run]:
        """The searches of the filter in its order, after the search `before`."""
        runs = Run.objects.select_related("problem", "device", "owner")
        runs = runs.filter(archived_at__isnull=self.state != ARCHIVED)
        if self.state != ARCHIVED:
            runs = (
                runs.filter(origin=Run.Origin.ADAPT) if self.state == ADAPT else runs.exclude(origin=Run.Origin.ADAPT)
            )
        if states := TABS[self.state][1]:
            runs = runs.filter(state__in=states)
        if self.device:
            runs = runs.filter(device__name=self.device)
        if self.q:
            words = self.q
            runs = runs.filter(
                Q(title__icontains=words) | Q(problem__title__icontains=words) | Q(problem__slug__icontains=words)
            )
        return self._after(runs, before)

    def _after(self, runs: QuerySet[Run], before: int | None) -> QuerySet[Run]:
        if self.sort == "oldest":
            runs = runs.order_by("pk")
            return runs if before is None else runs.filter(pk__gt=before)
        if self.sort == "problem":
            runs = runs.order_by("problem__title", "-pk")
            last = Run.objects.select_related("problem").filter(pk=before).first() if before is not None else None
            if last is None:
                return runs
            title = last.problem.title
            return runs.filter(Q(problem__title__gt=title) | Q(problem__title=title, pk__lt=last.pk))
        runs = runs.order_by("-pk")
        return runs if before is None else runs.filter(pk__lt=before)


def devices_searched() -> list[str]:
    """Names of the devices that any search has used."""
    return list(Device.objects.filter(runs__isnull=False).distinct().order_by("name").values_list("name", flat=True))
