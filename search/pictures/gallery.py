"""All pictures of a search, and each of them as a file."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable
from typing import Any

from adaexplore_site.core.downloads import safe
from judge.problems.models import flag_codes
from search.pictures.book import Book, words_of
from search.pictures.burndown import burn_down_picture
from search.pictures.elites import elites
from search.pictures.lineage import lineage
from search.pictures.progress import best_so_far
from search.pictures.roofline import roofline
from search.pictures.samples import samples
from search.pictures.values import Picture

PICTURES: dict[str, Callable[[Book], Picture]] = {
    "best-so-far": best_so_far,
    "roofline": roofline,
    "samples": samples,
    "lineage": lineage,
    "elites": elites,
    "burn-down": burn_down_picture,
}


def pictures_of(book: Book, x: str) -> list[Picture]:
    """Every picture, `x` being the horizontal axis of the first."""
    return [picture_of(book, name, x) for name in PICTURES]


def picture_of(book: Book, name: str, x: str) -> Picture:
    """The picture of that name. Raises KeyError."""
    return best_so_far(book, x) if name == "best-so-far" else PICTURES[name](book)


def picture_document(book: Book, picture: Picture) -> dict[str, Any]:
    """The JSON file: what the numbers are worth, then the numbers."""
    run = book.run
    device, problem = run.device, run.problem
    found = picture.document()
    return {
        "run": run.pk,
        "problem": {"slug": problem.slug, "state": problem.state, "flags": flag_codes(problem)},
        "device": {"name": device.name, "title": device.title, "arch": device.arch},
        "basis": words_of(book.basis) if picture.timed else None,
        **found,
        "alarms": list(picture.alarms),
    }


def picture_csv(book: Book, picture: Picture) -> str:
    """One line per row, each with the basis and whether the problem is degenerate; unknown is empty."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    records = picture.records()
    names = list(records[0]) if records else list(picture.table.names)
    writer.writerow([*names, "basis", "problem_state"])
    basis = words_of(book.basis) if picture.timed else ""
    for record in records:
        cells = ["" if record[name] is None else safe(record[name]) for name in names]
        writer.writerow([*cells, basis, book.run.problem.state])
    return out.getvalue()
