"""Reads a recorded search (AdaExplore's packed JSON, gzipped or not) into checked values; trusts nothing. Pure."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import math
import re
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, TypeVar

from django.utils.translation import gettext as _

from adaexplore_site.core.text import storable_text
from judge.values import Audit, Basis, Gradients, Precision, Verdict
from search.algorithm.tree import LARGE, SMALL
from search.interchange.own import OWN, PARTS, RecordedMemory
from search.records.events import RecordedAct


@dataclass(frozen=True)
class Modelled:
    """The range that a modelled speedup lies in, and whether it was audited where it was made."""

    low: float
    high: float
    n: int | None
    audit: Audit


def modelled_read(own: Mapping[str, Any], speedup: float | None) -> Modelled | None:
    """From a step of a search whose figures a time model made; None without a speedup. Raises ValueError."""
    if speedup is None:
        return None
    low, high, n, audit = _end(own.get("low")), _end(own.get("high")), own.get("n"), own.get("audit")
    if own.get("basis") != Basis.MODELLED or not 0 < low <= speedup <= high:
        raise ValueError("a MODELLED speedup must come with the range it lies in, low and high")
    counted = isinstance(n, int) and not isinstance(n, bool) and 0 <= n < 1 << 31
    return Modelled(low, high, n if counted else None, Audit(audit) if audit in list(Audit) else Audit.NONE)


def _end(value: Any) -> float:
    """One end of a range; 0, which no range has, for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float) or abs(value) > 1e300:
        return 0.0
    return float(value) if math.isfinite(value) else 0.0


MAX_BYTES = 64 << 20
MAX_STEPS = 20_000
MAX_FIGURE = 1e300  # a whole number in JSON may be larger than any float
# "249×", "3.2x", "4-fold", "2 times"; not the "16x16" of a shape.
_FIGURE = re.compile(r"\d[\d.,]*\s?(?:[×xX](?!\w)|-?fold\b|times\b)")
_KINDS = {"large_step": LARGE, "small_step": SMALL}


class RecordingRejected(ValueError):
    """The file is no recorded search. The message says what is wrong and where."""


@dataclass(frozen=True)
class RecordedStep:
    """One completed node. `speedup` is None unless the kernel was correct and timed.

    Steps stand in the order in which they were completed. `number` is the node's: its place in that order, unless the
    ids of the file are 0, 1, 2, ... without gaps. `verdict`, `summary` and `touched` (a person had a hand in it) come
    from our own exports, else None, empty and False; so does `modelled`.
    """

    number: int
    parent: int
    kind: str
    context: tuple[int, ...]
    loads: bool
    correct: bool
    speedup: float | None
    error: str
    code: str
    prompt: str
    figures: dict[str, Any]  # runtime, baseline and hardware as published
    verdict: Verdict | None = None
    summary: str = ""
    touched: bool = False
    modelled: Modelled | None = None  # how sure the time model was of the speedup


@dataclass(frozen=True)
class Withdrawn:
    """A node that our own export names because it was cancelled: it keeps its number and nothing else."""

    number: int
    parent: int
    kind: str


@dataclass(frozen=True)
class Recording:
    """One recorded search. `digest` is the hash of the unpacked file."""

    label: str
    run_dir: str
    reference: str
    hardware: str
    digest: str
    steps: tuple[RecordedStep, ...]
    slug: str = ""  # of the problem, in our own export
    precision: Precision = Precision.STRICT  # its numerics, there
    gradients: Gradients = Gradients.NONE  # of what it asks gradients
    withdrawn: tuple[Withdrawn, ...] = ()
    modelled: bool = False  # our own export says that a time model made all its figures
    params: dict[str, Any] | None = None  # SearchParams of the run that was exported, unchecked
    seed: int | None = None
    memory: RecordedMemory | None = None  # of our own export
    acts: tuple[RecordedAct, ...] = ()  # of people, of our own export

    @property
    def title(self) -> str:
        """The label up to its first speedup: a claim of the source must not stand in a title as if it were ours."""
        found = _FIGURE.search(self.label)
        return self.label[: found.start()].rstrip(" \t—–-:;,|(>→~≈<=") if found else self.label

    @property
    def level(self) -> str:
        """ "level2" when the label starts with "L2 /", else empty."""
        found = re.match(r"L(\d+)\s*/", self.label)
        return f"level{found[1]}" if found else ""


def read_recording(data: bytes) -> Recording:
    """The recording in these bytes. Raises RecordingRejected."""
    unpacked = _unpacked(data)
    try:
        document = json.loads(unpacked)
    except (ValueError, RecursionError) as error:
        raise RecordingRejected(
            _("This is not JSON (%(error)s). Expected a packed AdaExplore search.") % {"error": error}
        ) from error
    return recording_of(document, digest=hashlib.sha256(unpacked).hexdigest())


def recording_of(document: Any, *, digest: str) -> Recording:
    """The recording in a document as `json.loads` gives it. Raises RecordingRejected."""
    if not isinstance(document, dict) or not isinstance(document.get("steps"), list):
        raise RecordingRejected(_('There is no list "steps": this is not a packed AdaExplore search.'))
    reference = document.get("reference_src")
    if not isinstance(reference, str) or not reference.strip():
        raise RecordingRejected(_('"reference_src", the source of the problem, is missing or empty.'))
    rows = document["steps"]
    if not 2 <= len(rows) <= MAX_STEPS + 1:
        raise RecordingRejected(
            _("A search has from 1 to %(max_steps)s steps after its root; this has %(count)s.")
            % {"max_steps": MAX_STEPS, "count": len(rows) - 1}
        )
    own = _own(document)
    gaps = own.get("withdrawn") or []
    numbers = _numbers(rows, gaps)
    modelled = own.get("basis") == Basis.MODELLED
    steps = _steps(rows, numbers, modelled=modelled)
    hardware = next((name for step in steps if (name := step.figures.get("hardware"))), "")
    return Recording(
        label=str(document.get("label") or "")[:200],
        run_dir=str(document.get("run_dir") or "")[:200],
        reference=reference,
        hardware=storable_text(str(hardware)[:40]) or "unknown",
        digest=digest,
        steps=steps,
        slug=_slug(own.get("problem")),
        precision=_chosen(own.get("problem"), "numerics", Precision.STRICT),
        gradients=_chosen(own.get("problem"), "gradients", Gradients.NONE),
        withdrawn=tuple(_withdrawn(row, numbers) for row in gaps) if numbers.dense else (),
        modelled=modelled,
        params=own.get("params") if isinstance(own.get("params"), dict) else None,
        seed=_seed(own.get("seed")),
        **_parts(own, numbers),
    )


Choice = TypeVar("Choice", bound=StrEnum)


def _chosen(problem: Any, key: str, default: Choice) -> Choice:
    """What `problem` says under `key`; `default` for what is none of its kind."""
    named, kind = problem.get(key) if isinstance(problem, dict) else None, type(default)
    return kind(named) if isinstance(named, str) and named in list(kind) else default


def _slug(problem: Any) -> str:
    slug = problem.get("slug") if isinstance(problem, dict) else None
    return slug if isinstance(slug, str) and re.fullmatch(r"[A-Za-z0-9_-]{1,60}", slug) else ""


def _parts(own: dict[str, Any], numbers: Numbers) -> dict[str, Any]:
    """The parts of our own export by name."""
    found = {}
    for name, part in PARTS.items():
        try:
            found[name] = part.read(own.get(name), numbers.of)
        except (ValueError, TypeError) as error:
            refusal = _('"%(name)s" under "%(own)s" cannot be read: %(error)s.')
            raise RecordingRejected(refusal % {"name": name, "own": OWN, "error": error}) from error
    return found


def _unpacked(data: bytes) -> bytes:
    if data[:2] != b"\x1f\x8b":
        unpacked = data
    else:
        try:
            with gzip.GzipFile(fileobj=io.BytesIO(data)) as packed:
                unpacked = packed.read(MAX_BYTES + 1)
        except (OSError, EOFError, zlib.error) as error:
            raise RecordingRejected(
                _("The gzip file is damaged (%(error)s). Fetch it again.") % {"error": error}
            ) from error
    if len(unpacked) > MAX_BYTES:
        raise RecordingRejected(_("The file unpacks to more than %(max_bytes)s MiB.") % {"max_bytes": MAX_BYTES >> 20})
    return unpacked


@dataclass(frozen=True)
class Numbers:
    """Node id in the file -> node number. `dense`: the ids are the numbers, gaps and all."""

    of: dict[int, int]
    dense: bool


def _numbers(rows: list[Any], gaps: Any) -> Numbers:
    """Check the ids of all rows. Without gaps they stay, else nodes are numbered as they stand."""
    ids: dict[int, int] = {}  # in the order of the file
    for place, row in enumerate(rows):
        if not isinstance(row, dict):
            raise RecordingRejected(_("Step %(place)s is not an object.") % {"place": place})
        node_id = row.get("node_id")
        if not isinstance(node_id, int) or isinstance(node_id, bool) or node_id in ids:
            raise RecordingRejected(
                _("Step %(place)s: node_id must be a whole number used once, not %(node_id)r.")
                % {"place": place, "node_id": node_id}
            )
        ids[node_id] = place
    if not isinstance(gaps, list) or len(gaps) > MAX_STEPS or any(not _known_gap(row, ids) for row in gaps):
        raise RecordingRejected(
            _('"withdrawn" under "%(own)s" must list nodes that are no steps, each on a step.') % {"own": OWN}
        )
    every = sorted([*ids, *(row["node_id"] for row in gaps)])
    downward = all(
        _whole(row.get("parent_node_id")) and row["parent_node_id"] < row["node_id"] for row in [*rows[1:], *gaps]
    )
    if next(iter(ids)) == 0 and downward and every == list(range(len(every))):
        return Numbers({node_id: node_id for node_id in every}, dense=True)
    return Numbers(ids, dense=False)


def _known_gap(row: Any, ids: dict[int, int]) -> bool:
    """Whether it has an id of its own and stands on a step."""
    if not isinstance(row, dict):
        return False
    number, parent = row.get("node_id"), row.get("parent_node_id")
    return _whole(number) and _whole(parent) and parent in ids


def _whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _seed(value: Any) -> int | None:
    return value if _whole(value) and 0 <= value < 1 << 63 else None


def _own(row: dict[str, Any]) -> dict[str, Any]:
    """What this product added to a file or step; empty in files of others."""
    own = row.get(OWN)
    return own if isinstance(own, dict) else {}


def _withdrawn(row: dict[str, Any], numbers: Numbers) -> Withdrawn:
    parent, kind = row["parent_node_id"], row.get("created_by")
    if not isinstance(kind, str) or kind not in _KINDS:
        raise RecordingRejected(
            _("Withdrawn node %(row)s: created_by must be large_step or small_step.") % {"row": row["node_id"]}
        )
    return Withdrawn(numbers.of[row["node_id"]], numbers.of[parent], _KINDS[kind])


def _steps(rows: list[Any], numbers: Numbers, *, modelled: bool) -> tuple[RecordedStep, ...]:
    """Check every row; node ids become numbers."""
    earlier: dict[Any, int] = {}
    steps = []
    for place, row in enumerate(rows):
        if place:
            step = _step(place, row, numbers.of[row["node_id"]], earlier)
            steps.append(replace(step, modelled=_modelled(place, _own(row), step.speedup)) if modelled else step)
        elif row.get("parent_node_id") is not None:
            raise RecordingRejected(_("Step 0 must be the root: its parent_node_id is null."))
        earlier[row["node_id"]] = numbers.of[row["node_id"]]
    return tuple(steps)


def _step(place: int, row: dict[str, Any], number: int, earlier: dict[Any, int]) -> RecordedStep:
    parent, context, score = row.get("parent_node_id"), row.get("context_node_ids") or [], row.get("score")
    if not isinstance(parent, int) or parent not in earlier:
        raise RecordingRejected(
            _("Step %(place)s: its parent %(parent)r is not an earlier node.") % {"place": place, "parent": parent}
        )
    if not isinstance(context, list) or any(not isinstance(item, int) or item not in earlier for item in context):
        raise RecordingRejected(_("Step %(place)s: context_node_ids must list earlier nodes.") % {"place": place})
    kind = row.get("created_by")
    if kind not in ("large_step", "small_step"):
        raise RecordingRejected(
            _("Step %(place)s: created_by must be large_step or small_step, not %(kind)r.")
            % {"place": place, "kind": kind}
        )
    if not isinstance(score, dict):
        raise RecordingRejected(_('Step %(place)s: "score" is missing.') % {"place": place})
    correct = score.get("correct") is True
    return RecordedStep(
        number=number,
        parent=earlier[parent],
        kind=_KINDS[kind],
        context=tuple(earlier[item] for item in context),
        loads=correct or score.get("compiled") is True,
        correct=correct,
        speedup=_speedup(place, score.get("fast_p")) if correct else None,
        error=_text(row, "error", place),
        code=_text(row, "code", place),
        prompt=_text(row, "prompt", place),
        figures={
            name: row.get(name) for name in ("runtime_us", "baseline_time_us", "hardware") if _plain(row.get(name))
        },
        verdict=_verdict(place, _own(row).get("verdict"), correct),
        summary=str(_own(row).get("summary") or "")[:200],
        touched=_own(row).get("touched") is True,
    )


def _modelled(place: int, own: dict[str, Any], speedup: float | None) -> Modelled | None:
    try:
        return modelled_read(own, speedup)
    except ValueError as error:
        raise RecordingRejected(_("Step %(place)s: %(error)s.") % {"place": place, "error": error}) from error


def _verdict(place: int, value: Any, correct: bool) -> Verdict | None:
    """The verdict our own export names. It must not contradict the score."""
    if value is None:
        return None
    if value not in list(Verdict) or (value == Verdict.PASS) != correct:
        raise RecordingRejected(
            _("Step %(place)s: the verdict %(value)r does not go with its score.") % {"place": place, "value": value}
        )
    return Verdict(value)


def _speedup(number: int, value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= MAX_FIGURE:
        raise RecordingRejected(
            _("Step %(number)s: fast_p must be a speedup, not %(value)r.") % {"number": number, "value": value}
        )
    return float(value) or None


def _text(row: dict[str, Any], name: str, number: int) -> str:
    value = row.get(name)
    if value is not None and not isinstance(value, str):
        raise RecordingRejected(_("Step %(number)s: %(name)s must be text.") % {"number": number, "name": name})
    return value or ""


def _plain(value: Any) -> bool:
    """A text or a finite number, nothing else."""
    return isinstance(value, str) or (isinstance(value, int | float) and abs(value) <= MAX_FIGURE)


def verdict_of_step(step: RecordedStep) -> Verdict:
    """The verdict that the published score and error text amount to; our own exports name it."""
    if step.verdict is not None:
        return step.verdict
    if step.correct:
        return Verdict.PASS
    error = step.error.lower()
    known = {
        "timeout": Verdict.TIMED_OUT,
        "syntaxerror": Verdict.BAD_SOURCE,
        "out of memory": Verdict.OUT_OF_MEMORY,
        "triton.compiler.errors": Verdict.COMPILE_FAILED,
        "outofresources": Verdict.COMPILE_FAILED,
        "incorrect output": Verdict.WRONG,
    }
    found = next((verdict for text, verdict in known.items() if text in error), None)
    return found or (Verdict.CRASHED if step.loads else Verdict.LOAD_FAILED)
