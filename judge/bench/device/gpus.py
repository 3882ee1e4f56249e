"""What the NVIDIA driver says of the GPUs of this machine. No torch, no CUDA context."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from judge.bench.device.nvml import Gpu, Part, gpus_here, parts, pynvml, throttle_reasons, told, using, within

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
        if ready is None or not told(nvml, "nvmlDeviceGetCount"):
            return GpuHealth(listed=True)
        part = next((part for part in parts(nvml) if part.uuid == uuid), None)
        if part is None:
            return GpuHealth(listed=False)
        kind, since = nvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED, nvml.NVML_VOLATILE_ECC
        return GpuHealth(True, told(nvml, "nvmlDeviceGetTotalEccErrors", part.board, kind, since))


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
    use = told(nvml, "nvmlDeviceGetUtilizationRates", part.handle)
    memory = told(nvml, "nvmlDeviceGetMemoryInfo", part.handle, nvml.nvmlMemory_v2)  # without the driver's own share
    memory = memory or told(nvml, "nvmlDeviceGetMemoryInfo", part.handle)  # drivers before 510
    reasons = throttle_reasons(nvml, part.board)
    return GpuReading(
        use=use.gpu if use else None,
        memory_used=int(memory.used) >> 20 if memory else None,
        memory_total=int(memory.total) >> 20 if memory else None,
        temperature_c=told(nvml, "nvmlDeviceGetTemperature", part.board, nvml.NVML_TEMPERATURE_GPU),
        clock_mhz=told(nvml, "nvmlDeviceGetClockInfo", part.board, nvml.NVML_CLOCK_SM),
        clock_most_mhz=told(nvml, "nvmlDeviceGetMaxClockInfo", part.board, nvml.NVML_CLOCK_SM),
        held=None if reasons is None else bool(reasons & nvml.nvmlClocksThrottleReasonApplicationsClocksSetting),
    )
