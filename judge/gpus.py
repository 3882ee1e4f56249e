"""The GPUs of this machine as nvidia-smi lists them. No torch, no CUDA context. Standard library only."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass, replace

_QUERY = "index,uuid,name,compute_cap,memory.total,driver_version"


@dataclass(frozen=True)
class Gpu:
    """One line of nvidia-smi. `ordinal` is the N of "cuda:N" in this process tree."""

    ordinal: int
    uuid: str
    title: str
    arch: str  # "sm_90"
    memory_mb: int
    driver: str


@dataclass(frozen=True)
class GpuHealth:
    """What the driver says of one GPU. `uncorrected`: memory errors since it was loaded; None: not counted."""

    listed: bool
    uncorrected: int | None = None


def gpu_health(uuid: str) -> GpuHealth:
    """Ask nvidia-smi for the GPU with this UUID."""
    return parse_health(nvidia_smi("uuid,ecc.errors.uncorrected.volatile.total"), uuid)


def parse_health(text: str, uuid: str) -> GpuHealth:
    """The line of `uuid` among "uuid, errors"; a GPU without ECC says [N/A]. Of silence nothing follows."""
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.split(",")]
        if len(cells) == 2 and cells[0] == uuid:
            return GpuHealth(True, int(cells[1]) if cells[1].isdigit() else None)
    return GpuHealth(listed=not text.strip())


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


_READING = (
    "uuid,utilization.gpu,memory.used,memory.total,temperature.gpu,clocks.current.sm,clocks.max.sm"  # as GpuReading
)

_HELD = "uuid,clocks_throttle_reasons.applications_clocks_setting"


def gpu_readings(timeout_s: float = 3.0) -> dict[str, GpuReading]:
    """UUID -> reading of every GPU that nvidia-smi lists; empty when it does not answer."""
    found = parse_readings(nvidia_smi(_READING, timeout_s))
    held = parse_held(nvidia_smi(_HELD, timeout_s)) if found else {}  # asked apart: old drivers know no such field
    return {uuid: replace(reading, held=held.get(uuid)) for uuid, reading in found.items()}


def parse_held(text: str) -> dict[str, bool]:
    """UUID -> whether a set clock limits the GPU, from "uuid, Active" and "uuid, Not Active"; others are left out."""
    lines = ([cell.strip() for cell in line.split(",")] for line in text.splitlines())
    said = {"Active": True, "Not Active": False}
    return {cells[0]: said[cells[1]] for cells in lines if len(cells) == 2 and cells[1] in said}


def parse_readings(text: str) -> dict[str, GpuReading]:
    """From CSV lines in the order of `GpuReading`, the UUID first. Lines of another length are skipped."""
    found = {}
    for line in text.splitlines():
        uuid, *cells = (cell.strip() for cell in line.split(","))
        if len(cells) == 6:
            use, used, total, heat, clock, most = (int(cell) if cell.isdigit() else None for cell in cells)
            found[uuid] = GpuReading(use, used, total, heat, clock, most)
    return found


def nvidia_smi(query: str = _QUERY, timeout_s: float = 20.0) -> str:
    """CSV lines of nvidia-smi, or "" when it is absent, fails or hangs: then there is no usable GPU."""
    command = ["nvidia-smi", f"--query-gpu={query}", "--format=csv,noheader,nounits"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=timeout_s, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout if done.returncode == 0 else ""


def parse_gpus(text: str, visible: str | None) -> list[Gpu]:
    """GPUs in the order that CUDA numbers them. `visible` is CUDA_VISIBLE_DEVICES: None means all, "" none.

    As in CUDA, the list ends at the first entry that names no GPU. Lines that do not parse are skipped.
    """
    found: dict[str, list[str]] = {}
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.split(",")]
        if len(cells) == 6 and cells[0].isdigit():
            found[cells[0]] = cells
    order = list(found)
    if visible is not None:
        order = []
        for entry in (part.strip() for part in visible.split(",")):
            match = entry if entry in found else _by_uuid(found, entry)
            if match is None:
                break
            order.append(match)
    return [_gpu(number, found[key]) for number, key in enumerate(order)]


def _by_uuid(found: dict[str, list[str]], entry: str) -> str | None:
    return next((key for key, cells in found.items() if entry.startswith("GPU-") and cells[1].startswith(entry)), None)


def _gpu(ordinal: int, cells: list[str]) -> Gpu:
    _, uuid, title, capability, memory, driver = cells
    digits = capability.replace(".", "")
    return Gpu(
        ordinal=ordinal,
        uuid=uuid,
        title=title,
        arch=f"sm_{digits}" if digits.isdigit() else "",
        memory_mb=int(memory) if memory.isdigit() else 0,
        driver=driver,
    )
