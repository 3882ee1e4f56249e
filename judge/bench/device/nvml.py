"""The GPUs of this machine, by NVIDIA's management library (nvidia-ml-py). No torch, no CUDA context.

Nothing raises where the package, the library, a driver or a GPU is missing, or where a driver does not know a question:
the answer is then that there is none. `nvml` is the module `pynvml`, None where it is not installed.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

try:
    import pynvml as pynvml
except ImportError:  # a GPU host that judges job files needs torch and Triton only
    pynvml = None

Answer = TypeVar("Answer")
_asking = threading.Lock()  # at most one thread is lost to a driver that hangs


@dataclass(frozen=True)
class Gpu:
    """One GPU, or one instance of a GPU that is divided by MIG. `ordinal` is the N of "cuda:N" in this process tree."""

    ordinal: int
    uuid: str  # "GPU-..." or "MIG-..."
    title: str
    arch: str  # "sm_90"
    memory_mb: int
    driver: str


@dataclass(frozen=True)
class Part:
    """What can be computed on: a GPU, or an instance of it. `handle` is its own, `board` that of the whole GPU."""

    index: int  # of the GPU, in the order of the PCI bus
    uuid: str
    handle: Any
    board: Any
    board_uuid: str


def start(nvml: Any) -> str:
    """Start using the library; returns why that is impossible, else "". `nvmlShutdown` ends it."""
    if nvml is None:
        return "nvidia-ml-py is not installed"
    try:
        nvml.nvmlInit()
    except nvml.NVMLError as error:
        return str(error)
    return ""


@contextmanager
def using(nvml: Any) -> Iterator[Any]:
    """`nvml`, ready for questions; None where there is nobody to ask."""
    ready = not start(nvml)
    try:
        yield nvml if ready else None
    finally:
        if ready:
            nvml.nvmlShutdown()


def query(nvml: Any, question: str, *about: Any) -> Any:
    """The answer to a question such as "nvmlDeviceGetName"; None where driver or package do not give one."""
    try:
        return getattr(nvml, question)(*about)
    except (nvml.NVMLError, AttributeError):
        return None


def throttle_reasons(nvml: Any, board: Any) -> int | None:
    """Bit mask of what limits the clocks of a whole GPU now; drivers before 535 know the question by its older name."""
    reasons: int | None = query(nvml, "nvmlDeviceGetCurrentClocksEventReasons", board)
    if reasons is None:
        reasons = query(nvml, "nvmlDeviceGetCurrentClocksThrottleReasons", board)
    return reasons


def within(seconds: float, ask: Callable[[], Answer], otherwise: Answer) -> Answer:
    """`ask()`; `otherwise` when that takes longer, as it does after some faults of a driver, or raises."""
    if not _asking.acquire(timeout=seconds):
        return otherwise
    found: list[Answer] = []

    def run() -> None:
        try:
            found.append(ask())
        finally:
            _asking.release()

    thread = threading.Thread(target=run, name="nvml", daemon=True)
    thread.start()
    thread.join(seconds)
    return found[0] if found else otherwise


def parts(nvml: Any) -> list[Part]:
    """Every GPU of this machine that is not divided, and the instances of those that are. Inside `using`."""
    found: list[Part] = []
    for index in range(query(nvml, "nvmlDeviceGetCount") or 0):
        board = query(nvml, "nvmlDeviceGetHandleByIndex", index)
        uuid = query(nvml, "nvmlDeviceGetUUID", board) if board is not None else None
        if uuid is None:
            continue  # it has fallen off the bus
        divided = (query(nvml, "nvmlDeviceGetMigMode", board) or [0])[0]
        handles = _instances(nvml, board) if divided else [board]
        for handle in handles:
            found.append(Part(index, query(nvml, "nvmlDeviceGetUUID", handle) or "", handle, board, uuid))
    return found


def _instances(nvml: Any, board: Any) -> list[Any]:
    places = range(query(nvml, "nvmlDeviceGetMaxMigDeviceCount", board) or 0)
    handles = (query(nvml, "nvmlDeviceGetMigDeviceHandleByIndex", board, place) for place in places)
    return [handle for handle in handles if handle is not None]  # a place may be empty


def visible(found: list[Part], entries: str | None) -> list[Part]:
    """Those that CUDA_VISIBLE_DEVICES names, in its order: None means all, "" none.

    As in CUDA, the list ends at the first entry that names nothing, a UUID may be shortened as long as it is unique,
    a GPU that is divided stands for its first instance, and naming something twice leaves nothing. CUDA itself shows a
    process one instance only; our children are given one device each.
    """
    if entries is None:
        return found
    chosen: list[Part] = []
    for entry in (part.strip() for part in entries.split(",")):
        matches = [part for part in found if _names(entry, part)]
        exact = {part.uuid if entry.startswith("MIG-") else part.board_uuid for part in matches}
        if len(exact) != 1:
            break
        chosen.append(matches[0])
    return chosen if len({part.uuid for part in chosen}) == len(chosen) else []


def _names(entry: str, part: Part) -> bool:
    if entry.isdigit():
        return int(entry) == part.index
    return entry.startswith(("GPU-", "MIG-")) and (part.uuid.startswith(entry) or part.board_uuid.startswith(entry))


def gpus_here(nvml: Any = pynvml, timeout_s: float = 20.0) -> list[Gpu]:
    """The GPUs that "cuda:0", "cuda:1" ... are here. CUDA_VISIBLE_DEVICES counts, with GPUs in the order of the bus.

    Without nvidia-ml-py torch is asked, which does not tell the driver's version.
    """
    return within(timeout_s, lambda: _listed(nvml), []) if nvml is not None else _listed_by_torch()


def _listed(nvml: Any) -> list[Gpu]:
    with using(nvml) as ready:
        if ready is None:
            return []
        driver = str(query(nvml, "nvmlSystemGetDriverVersion") or "")
        chosen = visible(parts(nvml), os.environ.get("CUDA_VISIBLE_DEVICES"))
        return [_gpu(nvml, ordinal, part, driver) for ordinal, part in enumerate(chosen)]


def _gpu(nvml: Any, ordinal: int, part: Part, driver: str) -> Gpu:
    capability = query(nvml, "nvmlDeviceGetCudaComputeCapability", part.board)
    memory = query(nvml, "nvmlDeviceGetMemoryInfo", part.handle)
    return Gpu(
        ordinal=ordinal,
        uuid=part.uuid,
        title=str(query(nvml, "nvmlDeviceGetName", part.handle) or ""),
        arch="sm_{}{}".format(*capability) if capability else "",
        memory_mb=int(memory.total) >> 20 if memory else 0,
        driver=driver,
    )


def _listed_by_torch() -> list[Gpu]:
    try:
        import torch
    except ImportError:
        return []
    os.environ.setdefault("CUDA_DEVICE_ORDER", "PCI_BUS_ID")
    rows = [torch.cuda.get_device_properties(number) for number in range(torch.cuda.device_count())]
    return [
        Gpu(
            ordinal=ordinal,
            uuid=f"{'MIG' if ' MIG ' in row.name else 'GPU'}-{row.uuid}",
            title=row.name,
            arch=f"sm_{row.major}{row.minor}",
            memory_mb=row.total_memory >> 20,
            driver="",
        )
        for ordinal, row in enumerate(rows)
    ]


def bus_addresses(nvml: Any = pynvml, timeout_s: float = 20.0) -> dict[str, str]:
    """PCI address by UUID of every GPU and instance of this machine, visible to us or not, in the order of the bus;
    empty where the driver is silent."""
    return within(timeout_s, lambda: _addresses(nvml), {})


def _addresses(nvml: Any) -> dict[str, str]:
    with using(nvml) as ready:
        rows = parts(nvml) if ready is not None else []
        found = {part.uuid: query(nvml, "nvmlDeviceGetPciInfo", part.board) for part in rows}
    return {uuid: _text(getattr(info, "busId", "")) for uuid, info in found.items()}


def _text(value: Any) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value)


def entry_of(ordinal: int, nvml: Any = pynvml) -> str:
    """What CUDA_VISIBLE_DEVICES must say to show a child "cuda:N" of this process tree alone; "" when there is none.

    A UUID where the driver tells it; else the N-th entry of our own CUDA_VISIBLE_DEVICES, else N.
    """
    found = gpus_here(nvml) if nvml is not None else []
    entries = os.environ.get("CUDA_VISIBLE_DEVICES")
    names = [gpu.uuid for gpu in found] or ([] if entries is None else [part.strip() for part in entries.split(",")])
    if entries is None and not names:
        return str(ordinal)
    return names[ordinal] if ordinal < len(names) else ""


__all__ = ["Gpu", "GpuHealth", "GpuReading", "gpu_health", "gpu_readings", "gpus_here"]


@dataclass(frozen=True)
class GpuHealth:
    """What the driver says of one GPU. `uncorrected`: memory errors since it was loaded; None: not counted."""

    listed: bool
    uncorrected: int | None = None


def gpu_health(uuid: str, nvml: Any = pynvml, timeout_s: float = 20.0) -> GpuHealth:
    """Of the GPU, or the MIG instance, with this UUID. Nothing follows from a driver that does not answer."""
    return within(timeout_s, lambda: _health(uuid, nvml), GpuHealth(listed=True))


def _health(uuid: str, nvml: Any) -> GpuHealth:
    with using(nvml) as ready:
        if ready is None or not query(nvml, "nvmlDeviceGetCount"):
            return GpuHealth(listed=True)
        part = next((part for part in parts(nvml) if part.uuid == uuid), None)
        if part is None:
            return GpuHealth(listed=False)
        kind, since = nvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED, nvml.NVML_VOLATILE_ECC
        return GpuHealth(True, query(nvml, "nvmlDeviceGetTotalEccErrors", part.board, kind, since))


@dataclass(frozen=True)
class GpuReading:
    """What a GPU does at a moment; None for what its driver does not tell. Use in per cent, memory in MiB."""

    use: int | None
    memory_used: int | None
    memory_total: int | None
    temperature_c: int | None
    clock_mhz: int | None
    clock_most_mhz: int | None
    held: bool | None = None  # whether a clock that somebody set (application clocks, locked clocks) limits it now


def gpu_readings(nvml: Any = pynvml, timeout_s: float = 3.0) -> dict[str, GpuReading]:
    """UUID -> reading of every GPU and MIG instance that the driver lists; empty when it does not answer."""
    return within(timeout_s, lambda: _readings(nvml), {})


def _readings(nvml: Any) -> dict[str, GpuReading]:
    with using(nvml) as ready:
        return {part.uuid: _reading(nvml, part) for part in parts(nvml)} if ready is not None else {}


def _reading(nvml: Any, part: Part) -> GpuReading:
    """Clocks and heat belong to the whole GPU; use and memory to the instance, of which no driver tells the use."""
    use = query(nvml, "nvmlDeviceGetUtilizationRates", part.handle)
    memory = query(nvml, "nvmlDeviceGetMemoryInfo", part.handle, nvml.nvmlMemory_v2)  # without the driver's own share
    memory = memory or query(nvml, "nvmlDeviceGetMemoryInfo", part.handle)  # drivers before 510
    reasons = throttle_reasons(nvml, part.board)
    return GpuReading(
        use=use.gpu if use else None,
        memory_used=int(memory.used) >> 20 if memory else None,
        memory_total=int(memory.total) >> 20 if memory else None,
        temperature_c=query(nvml, "nvmlDeviceGetTemperature", part.board, nvml.NVML_TEMPERATURE_GPU),
        clock_mhz=query(nvml, "nvmlDeviceGetClockInfo", part.board, nvml.NVML_CLOCK_SM),
        clock_most_mhz=query(nvml, "nvmlDeviceGetMaxClockInfo", part.board, nvml.NVML_CLOCK_SM),
        held=None if reasons is None else bool(reasons & nvml.nvmlClocksThrottleReasonApplicationsClocksSetting),
    )
