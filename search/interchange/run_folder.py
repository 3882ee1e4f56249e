"""Run folders of AdaExplore and the archives they come in. Pure: names and texts in and out."""

from __future__ import annotations

import hashlib
import io
import json
import re
import stat
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Any

from django.utils.translation import gettext as _

from adaexplore_site.core.env import MAX_UPLOAD_BYTES
from search.interchange.own import OWN
from search.interchange.recording import Recording, RecordingRejected, recording_of

REFERENCE = "reference_src.py"
MANIFEST = "manifest.json"
_LOG = re.compile(r"step_(\d{1,7})_log\.json")


def folder_of(files: Mapping[str, bytes], *, name: str) -> tuple[str, dict[str, bytes]]:
    """(name, files by name) of the one run folder in there; `name` where it lies at the top.

    Raises RecordingRejected when there is none, or several.
    """
    places = {PurePosixPath(path).parent for path in files if _LOG.fullmatch(PurePosixPath(path).name)}
    if not places:
        raise RecordingRejected(_("There is no step_1_log.json: this is not an AdaExplore run folder."))
    if len(places) > 1:
        raise RecordingRejected(
            _("There are %(count)s run folders in it. Import them one by one.") % {"count": len(places)}
        )
    place = places.pop()
    inside = {PurePosixPath(path): data for path, data in files.items()}
    return place.name or name, {path.name: data for path, data in inside.items() if path.parent == place}


def read_folder(files: Mapping[str, bytes], *, name: str) -> Recording:
    """The recording in a run folder called `name`. Raises RecordingRejected."""
    document = document_of(files, name=name)
    text = json.dumps(document, sort_keys=True).encode()
    return recording_of(document, digest=hashlib.sha256(text).hexdigest())


def document_of(files: Mapping[str, bytes], *, name: str) -> dict[str, Any]:
    """The same search as a packed document. Raises RecordingRejected with the file that is missing or wrong."""
    if REFERENCE not in files:
        raise RecordingRejected(
            _("%(reference)s, the PyTorch module of the search, is missing. Put it into the folder.")
            % {"reference": REFERENCE}
        )
    numbers = sorted(int(found[1]) for file in files if (found := _LOG.fullmatch(file)))
    manifest = _object(files, MANIFEST) if MANIFEST in files else {}
    own = manifest.get(OWN)
    document = {
        "label": manifest.get("label") or _label(name, len(numbers) - 1),
        "run_dir": manifest.get("run_dir") or name,
        "reference_src": _text(files, REFERENCE),
        "steps": [_row(files, number) for number in numbers],
    }
    return document | ({OWN: own} if isinstance(own, dict) else {})


def _label(name: str, steps: int) -> str:
    """`2_18`, as AdaExplore names its folders, is level 2, problem 18."""
    found = re.fullmatch(r"(\d+)_(\d+)", name)
    return f"L{found[1]} / {found[2]} ({steps} steps)" if found else name


def _row(files: Mapping[str, bytes], number: int) -> dict[str, Any]:
    log, metrics = _object(files, f"step_{number}_log.json"), {}
    if f"step_{number}_metrics.json" in files:
        metrics = _object(files, f"step_{number}_metrics.json")
    stats, facts = _dict(metrics.get("runtime_stats")), _dict(metrics.get("metadata"))
    score = _score(log, metrics, stats, number)
    row = {
        "node_id": log.get("node_id"),
        "parent_node_id": log.get("parent_node_id"),
        "context_node_ids": log.get("context_node_ids"),
        "created_by": log.get("created_by"),
        "score": score,
        "runtime_us": metrics.get("runtime"),
        "baseline_time_us": stats.get("baseline_time"),
        "hardware": stats.get("hardware") or facts.get("hardware"),
        "error": None if score["correct"] else _error(facts, score),
        "code": _text(files, f"step_{number}.py"),
        "prompt": _text(files, f"step_{number}_prompt.txt"),
    }
    return row | ({OWN: facts[OWN]} if isinstance(facts.get(OWN), dict) else {})


def _score(log: dict[str, Any], metrics: dict[str, Any], stats: dict[str, Any], number: int) -> dict[str, Any]:
    """The log's (compiled, correct, speedup), else what the metrics say."""
    score = log.get("score")
    if score is None:
        correct = metrics.get("compiled") is True and metrics.get("correctness") is True
        score = [metrics.get("compiled") is True, correct, stats.get("fast_p") or 0.0]
    if not isinstance(score, list) or len(score) != 3:
        raise RecordingRejected(
            _("step_%(number)s_log.json: score must list compiled, correct and speedup.") % {"number": number}
        )
    return {"compiled": bool(score[0]), "correct": bool(score[1]), "fast_p": score[2] or 0.0}


def _error(facts: dict[str, Any], score: dict[str, Any]) -> str:
    """What failed, in words: the name and text under `metadata`, else which check it was."""
    names = [facts.get(f"{kind}_error_name") for kind in ("runtime", "compilation")]
    texts = [facts.get(key) for key in ("runtime_error", "compilation_error", "error")]
    name = next((str(value) for value in names if value), "")
    text = next((str(value).strip() for value in texts if value), "")
    failed = ": ".join(part for part in (name, text) if part)
    return failed or ("incorrect output" if score["compiled"] else "compile failed")


def files_of(document: Mapping[str, Any]) -> dict[str, str]:
    """A packed document as the files of a run folder, the manifest with what the format has no place for."""
    files = {REFERENCE: document["reference_src"], MANIFEST: _json(_manifest(document))}
    for number, row in enumerate(document["steps"]):
        files[f"step_{number}.py"] = row["code"]
        files[f"step_{number}_metrics.json"] = _json(_metrics(row))
        files[f"step_{number}_log.json"] = _json(_step_log(row, number))
        if row["prompt"]:
            files[f"step_{number}_prompt.txt"] = row["prompt"]
    return files


def _manifest(document: Mapping[str, Any]) -> dict[str, Any]:
    return {key: document[key] for key in ("label", "run_dir", OWN)}


def _metrics(row: dict[str, Any]) -> dict[str, Any]:
    score = row["score"]
    stats = {"fast_p": score["fast_p"], "baseline_time": row["baseline_time_us"], "hardware": row["hardware"]}
    return {
        "compiled": score["compiled"],
        "correctness": score["correct"],
        "metadata": ({"error": row["error"]} if row["error"] else {}) | ({OWN: row[OWN]} if OWN in row else {}),
        "runtime": row["runtime_us"],
        "runtime_stats": stats if score["correct"] else {"hardware": row["hardware"]},
    }


def _step_log(row: dict[str, Any], number: int) -> dict[str, Any]:
    score = row["score"]
    names = ("node_id", "parent_node_id", "context_node_ids", "depth", "created_by")
    statistics = ("visits", "total_reward", "max_reward", "avg_reward")
    return {
        **{name: row[name] for name in (*names, *statistics)},
        "score": [int(score["compiled"]), int(score["correct"]), score["fast_p"]],
        "total_nodes": number + 1,
        "global_best_node_id": row["global_best_node_id"],
        "global_best_score": list(row["global_best_score"]),
    }


def _json(value: Any) -> str:
    return json.dumps(value, indent=1, ensure_ascii=False) + "\n"


def _dict(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _object(files: Mapping[str, bytes], name: str) -> dict[str, Any]:
    try:
        value = json.loads(files[name])
    except (ValueError, RecursionError) as error:
        raise RecordingRejected(_("%(name)s is not JSON (%(error)s).") % {"name": name, "error": error}) from error
    if not isinstance(value, dict):
        raise RecordingRejected(_("%(name)s must hold one JSON object.") % {"name": name})
    return value


def _text(files: Mapping[str, bytes], name: str) -> str:
    return files.get(name, b"").decode("utf-8", "replace")


MAX_BYTES = 64 << 20  # unpacked, all files together
MAX_FILE_BYTES = 4 << 20
MAX_FILES = 100_000
_METHODS = {zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED}  # others may need much memory to unpack
_ENCRYPTED = 0x1


class ArchiveRejected(ValueError):
    """The archive or folder is not taken. The message says why and what to do."""


def files_in_zip(data: bytes) -> dict[str, bytes]:
    """Path -> content of every plain file. Nothing is written to disk. Raises ArchiveRejected."""
    if len(data) > MAX_UPLOAD_BYTES:
        raise ArchiveRejected(
            _("The archive is larger than %(max_upload_bytes)s MiB. Import the folder by command.")
            % {"max_upload_bytes": MAX_UPLOAD_BYTES >> 20}
        )
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            entries = [entry for entry in archive.infolist() if not entry.is_dir()]
            _check(entries)
            return _contents(archive, entries)
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, UnicodeDecodeError) as error:
        raise ArchiveRejected(_("The archive is damaged (%(error)s). Pack it again.") % {"error": error}) from error


def files_in_folder(folder: Path) -> dict[str, bytes]:
    """Name -> content of the plain files in `folder`, subfolders left out. Raises ArchiveRejected."""
    found: dict[str, bytes] = {}
    room = MAX_BYTES
    for path in sorted(folder.iterdir()):
        if path.is_symlink() or not path.is_file() or path.suffix not in {".py", ".json", ".txt"}:
            continue
        if path.stat().st_size > min(room, MAX_FILE_BYTES):
            raise ArchiveRejected(_too_large(path.name, room))
        found[path.name] = path.read_bytes()
        room -= len(found[path.name])
    return found


def _check(entries: list[zipfile.ZipInfo]) -> None:
    """Refuse the whole archive when any entry is not a plain file with a plain name, or says it is too large."""
    if len(entries) > MAX_FILES:
        raise ArchiveRejected(
            _("The archive holds %(count)s files; the limit is %(max_files)s.")
            % {"count": len(entries), "max_files": MAX_FILES}
        )
    names: set[str] = set()
    for entry in entries:
        name = entry.filename
        if not _plain(name) or name in names:
            raise ArchiveRejected(
                _("The archive holds %(name)r, a name that is not taken. Pack the run folder alone.") % {"name": name}
            )
        names.add(name)
        mode = entry.external_attr >> 16
        if mode and stat.S_IFMT(mode) not in (0, stat.S_IFREG):
            raise ArchiveRejected(
                _("%(name)s is a link or a device, not a plain file. Pack the files themselves.") % {"name": name}
            )
        if entry.flag_bits & _ENCRYPTED:
            raise ArchiveRejected(_("%(name)s is encrypted. Pack the folder without a password.") % {"name": name})
        if entry.compress_type not in _METHODS:
            raise ArchiveRejected(
                _("%(name)s is packed by a method that is not taken. Use plain zip (deflate).") % {"name": name}
            )
    if sum(entry.file_size for entry in entries) > MAX_BYTES:
        raise ArchiveRejected(_("The archive unpacks to more than %(max_bytes)s MiB.") % {"max_bytes": MAX_BYTES >> 20})


def _plain(name: str) -> bool:
    """Relative, without a way up, a drive, a backslash or control characters."""
    parts = PurePosixPath(name).parts
    return (
        bool(parts)
        and not name.startswith("/")
        and ".." not in parts
        and not any(sign in name for sign in "\\:")
        and name.isprintable()
    )


def _contents(archive: zipfile.ZipFile, entries: list[zipfile.ZipInfo]) -> dict[str, bytes]:
    """Read up to the limits, whatever the headers said."""
    found: dict[str, bytes] = {}
    room = MAX_BYTES
    for entry in entries:
        limit = min(room, MAX_FILE_BYTES)
        with archive.open(entry) as file:
            content = file.read(limit + 1)
        if len(content) > limit:
            raise ArchiveRejected(_too_large(entry.filename, room))
        found[entry.filename] = content
        room -= len(content)
    return found


def _too_large(name: str, room: int) -> str:
    if room < MAX_FILE_BYTES:
        return f"The files unpack to more than {MAX_BYTES >> 20} MiB together."
    return f"{name} is larger than {MAX_FILE_BYTES >> 20} MiB."
