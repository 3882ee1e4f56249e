"""Well-formed replies of subjects, as they come over the wire, and what the door makes of them."""

from __future__ import annotations

from typing import Any, TypeVar

from judge.bench.exchange.claims import (
    ArenaOpened,
    BurstCaptured,
    BurstDone,
    BurstReady,
    Chosen,
    Claim,
    Constructed,
    Forwarded,
    Loaded,
    Started,
    StateTaken,
    Timed,
)
from judge.bench.exchange.fields import Fields
from judge.bench.exchange.rows import CountedRow, KernelRow, LaunchedRow, TracedRow

KINDS: tuple[type[Claim], ...] = (
    ArenaOpened, BurstCaptured, BurstDone, BurstReady, Chosen, Constructed, Forwarded, Loaded, Started,
    StateTaken, Timed,
)  # fmt: skip
OUTPUT: dict[str, Any] = {
    "template": {"dict": [["a", {"t": 0}], ["b", {"list": [{"v": None}, {"f": "nan"}, {"v": 2.5}, {"v": "x"}]}]]},
    "metas": [{"dtype": "float32", "shape": [4, 8], "stride": [8, 1]}],
    "stored": True,
}
KERNEL = {
    "name": "k", "grid": [4, 1, 1], "num_warps": 4, "num_stages": 3, "regs": 32, "spills": 0, "shared_bytes": 1024,
    "error": None,
}  # fmt: skip
TUNED = {
    "kernel": "k", "key": "(64,)", "total": 3, "compiled": ["BLOCK: 64"], "over_limit": 0, "late": 1, "unfit": 1,
    "first": "BLOCK: 32", "chosen": "BLOCK: 64",
}  # fmt: skip
COUNTED = {
    "name": "k", "origin": "triton", "programs": 4, "logical_bytes": 5120, "sector_bytes": 5120, "unique_bytes": 5120,
    "elementwise_flops": 64, "dot_flops": {"tf32": 64}, "accesses": 8,
}  # fmt: skip
HONEST: dict[str, dict[str, Any]] = {
    "start": {"started": True},
    "load": {"loaded": True},
    "arena": {"arena": "memfd"},
    "construct": {
        "constructed": True,
        "state": [{"name": "norm.weight", "kind": "parameter", "dtype": "float32", "shape": [8], "stride": [1]}],
        "hook": False,
    },
    "parameters": {"parameters": 1, "prepare_us": 12.5},
    "choose": {"chosen": True},
    "fail_launches": {"failing": True},
    "burst_ready": {"ready": 4},
    "burst_capture": {"captured": 4},
    "burst": {"done": 4},
    "timed": {**OUTPUT, "alias": [], "kept": [0], "us": 12.5, "host_us": 3.0},
    "forward": {
        **OUTPUT,
        "alias": [[0, 1]], "kept": [0], "codes": [["c0de", "k"]],
        "missing": ["norm.bias"], "drew": False, "grads": True, "kernels": [KERNEL],
        "tuned": [TUNED], "launchers": [{"signature": ["*fp32", "i32", ["constexpr"]], "descriptors": False}],
        "notes": ["forward reads values back"], "traffic": [COUNTED], "unseen": [], "compiled_graphs": 2,
        "launches": [{"name": "k", "origin": "own", "completed": 1, "raised": 0, "kind": ""}],
        "gpu": [{"name": "k", "calls": 1, "us": 3.5}], "gpu_failure": "",
        "switched": ["num_threads"],
    },
}  # fmt: skip
FAULTY = {"error": {"kind": "load", "reason": "load.import", "message": "no module"}, "touched": ["a.b"]}

Kind = TypeVar("Kind", bound=Claim)


def said(kind: type[Kind], **fields: Any) -> Kind:
    """The claim that an honest reply becomes, with these fields in place of its own."""
    return kind.read(Fields({**HONEST[kind.op], **fields}, "a reply"))


def forwarded(**fields: Any) -> Forwarded:
    """A call that returned one tensor, and of which nothing more is known than these fields of the reply."""
    return Forwarded.read(Fields({"template": {"t": 0}, "metas": OUTPUT["metas"], "stored": True, **fields}, "a reply"))


def counted(name: str, origin: str = "triton", **counts: Any) -> CountedRow:
    nothing = {key: 0 for key, value in COUNTED.items() if type(value) is int}
    return CountedRow.read({**nothing, "dot_flops": {}, "name": name, "origin": origin, **counts})


def launched(
    name: str,
    origin: str = "own",
    completed: int = 1,
    raised: int = 0,
    kind: str = "",
    inside: tuple[str, ...] = (),
) -> LaunchedRow:
    return LaunchedRow(name, origin, completed, raised, kind, inside)


def compiled(name: str) -> KernelRow:
    return KernelRow.read({**KERNEL, "name": name})


def traced(**spent_us: float) -> list[TracedRow]:
    return [TracedRow(name, us) for name, us in spent_us.items()]
