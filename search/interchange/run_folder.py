"""AdaExplore's run folder: one log, kernel, metrics and prompt file per step. Pure: names and texts in and out.

Format: github StigLidu/AdaExplore, `agent/mcts.py` (writes it) and `web/build_run_data.py` (packs it).
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Any

from search.interchange.recording import OWN, Recording, RecordingRejected, recording_of

REFERENCE = "reference_src.py"
MANIFEST = "manifest.json"
_LOG = re.compile(r"step_(\d{1,7})_log\.json")


def folder_of(files: Mapping[str, bytes], *, name: str) -> tuple[str, dict[str, bytes]]:
    """(name, files by name) of the one run folder in there; `name` where it lies at the top.

    Raises RecordingRejected when there is none, or several.
    """
    places = {PurePosixPath(path).parent for path in files if _LOG.fullmatch(PurePosixPath(path).name)}
    if not places:
        raise RecordingRejected("There is no step_1_log.json: this is not an AdaExplore run folder.")
    if len(places) > 1:
        raise RecordingRejected(f"There are {len(places)} run folders in it. Import them one by one.")
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
        raise RecordingRejected(f"{REFERENCE}, the PyTorch module of the search, is missing. Put it into the folder.")
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
        raise RecordingRejected(f"step_{number}_log.json: score must list compiled, correct and speedup.")
    return {"compiled": bool(score[0]), "correct": bool(score[1]), "fast_p": score[2] or 0.0}


def _error(facts: dict[str, Any], score: dict[str, Any]) -> str:
    """What failed, in words: the name and text under `metadata`, else which check it was."""
    names = [facts.get(f"{kind}_error_name") for kind in ("runtime", "compilation")]
    texts = [facts.get(key) for key in ("runtime_error", "compilation_error", "error")]
    name = next((str(value) for value in names if value), "")
    text = next((str(value).strip() for value in texts if value), "")
    told = ": ".join(part for part in (name, text) if part)
    return told or ("incorrect output" if score["compiled"] else "compile failed")


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
        raise RecordingRejected(f"{name} is not JSON ({error}).") from error
    if not isinstance(value, dict):
        raise RecordingRejected(f"{name} must hold one JSON object.")
    return value


def _text(files: Mapping[str, bytes], name: str) -> str:
    return files.get(name, b"").decode("utf-8", "replace")
