"""A run as one file to take home: the run folder as zip, or the packed JSON. The same rows give the same bytes."""

from __future__ import annotations

import gzip
import json
import re

from adaexplore_site.core.text import storable
from search.interchange.exports import zipped
from search.interchange.packed import packed_document
from search.interchange.run_folder import files_of
from search.records.models import Run


def run_stem(run: Run) -> str:
    """`adaexplore_row_softmax_run7`."""
    slug = re.sub(r"[^a-z0-9]+", "_", run.problem.slug.lower()).strip("_")[:60] or "problem"
    return f"adaexplore_{slug}_run{run.pk}"


def run_folder_files(run: Run) -> dict[str, str]:
    """Name -> text of AdaExplore's run folder."""
    return files_of(storable(packed_document(run)))


def run_folder_zip(run: Run) -> tuple[str, bytes]:
    """(file name, bytes): the run folder inside a zip, in a folder of its own."""
    stem = run_stem(run)
    return f"{stem}.zip", zipped({f"{stem}/{name}": text for name, text in run_folder_files(run).items()})


def run_packed(run: Run) -> tuple[str, bytes]:
    """(file name, bytes): the packed JSON, gzipped."""
    text = json.dumps(storable(packed_document(run)), ensure_ascii=False).encode()
    return f"{run_stem(run)}.json.gz", gzip.compress(text, mtime=0)
