"""A machine's GPUs as the module `pynvml` would tell of them: handed to the functions that ask."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pynvml

MIB = 1 << 20


@dataclass
class Board:
    """One GPU, or one MIG instance in `instances`. What is None here, the driver does not tell."""

    uuid: str = "GPU-aaaa-1"
    name: str = "NVIDIA H100 80GB HBM3"
    capability: tuple[int, int] = (9, 0)
    total_mib: int = 81559
    used_mib: int | None = 0
    use: int | None = 0
    temperature: int | None = 30
    clock: int | None = 345
    most: int | None = 1980
    errors: int | None = 0
    reasons: int | None = 0
    divided: bool = False
    instances: list[Board | None] = field(default_factory=list)
    lost: bool = False


class FakeNvml:
    """`boards` in the order of the bus. `lacks`: functions that this driver, or this release of pynvml, does not have.

    `open` counts sessions that were started and not ended.
    """

    NVMLError = pynvml.NVMLError
    NVML_CLOCK_SM = pynvml.NVML_CLOCK_SM
    NVML_TEMPERATURE_GPU = pynvml.NVML_TEMPERATURE_GPU
    NVML_MEMORY_ERROR_TYPE_UNCORRECTED = pynvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED
    NVML_VOLATILE_ECC = pynvml.NVML_VOLATILE_ECC
    nvmlMemory_v2 = pynvml.nvmlMemory_v2
    nvmlClocksThrottleReasonApplicationsClocksSetting = pynvml.nvmlClocksThrottleReasonApplicationsClocksSetting

    def __init__(
        self, *boards: Board, driver: str = "570.12", refuses: int = 0, lacks: tuple[str, ...] = (), old: bool = False
    ) -> None:
        self.boards, self.driver, self.refuses, self.lacks, self.old = boards, driver, refuses, lacks, old
        self.open = 0

    def __getattribute__(self, name: str) -> Any:
        found = object.__getattribute__(self, name)
        if name.startswith("nvmlDevice") and name in object.__getattribute__(self, "lacks"):
            if object.__getattribute__(self, "old"):  # a release of pynvml that does not know the function
                raise AttributeError(name)
            return _raiser(pynvml.NVML_ERROR_FUNCTION_NOT_FOUND)
        return found

    def nvmlInit(self) -> None:
        if self.refuses:
            raise pynvml.NVMLError(self.refuses)
        self.open += 1

    def nvmlShutdown(self) -> None:
        self.open -= 1
        assert self.open >= 0

    def _asked(self) -> None:
        if not self.open:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_UNINITIALIZED)

    def nvmlSystemGetDriverVersion(self) -> str:
        self._asked()
        return self.driver

    def nvmlDeviceGetCount(self) -> int:
        self._asked()
        return len(self.boards)

    def nvmlDeviceGetHandleByIndex(self, index: int) -> Board:
        self._asked()
        if self.boards[index].lost:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_GPU_IS_LOST)
        return self.boards[index]

    def nvmlDeviceGetUUID(self, handle: Board) -> str:
        return handle.uuid

    def nvmlDeviceGetName(self, handle: Board) -> str:
        return handle.name

    def nvmlDeviceGetCudaComputeCapability(self, handle: Board) -> tuple[int, int]:
        return self._whole(handle).capability

    def nvmlDeviceGetMemoryInfo(self, handle: Board, version: int | None = None) -> Any:
        if version and "nvmlMemory_v2" in self.lacks:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_FUNCTION_NOT_FOUND)
        used = _known(handle.used_mib) * MIB
        reserved = 0 if version else 500 * MIB  # the first version counts the driver's own share as used
        return SimpleNamespace(total=handle.total_mib * MIB, used=used + reserved)

    def nvmlDeviceGetUtilizationRates(self, handle: Board) -> Any:
        return SimpleNamespace(gpu=_known(self._whole(handle).use), memory=0)

    def nvmlDeviceGetTemperature(self, handle: Board, sensor: int) -> int:
        assert sensor == pynvml.NVML_TEMPERATURE_GPU
        return _known(self._whole(handle).temperature)

    def nvmlDeviceGetClockInfo(self, handle: Board, domain: int) -> int:
        assert domain == pynvml.NVML_CLOCK_SM
        return _known(self._whole(handle).clock)

    def nvmlDeviceGetMaxClockInfo(self, handle: Board, domain: int) -> int:
        assert domain == pynvml.NVML_CLOCK_SM
        return _known(self._whole(handle).most)

    def nvmlDeviceGetTotalEccErrors(self, handle: Board, kind: int, since: int) -> int:
        assert (kind, since) == (pynvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED, pynvml.NVML_VOLATILE_ECC)
        return _known(self._whole(handle).errors)

    def nvmlDeviceGetCurrentClocksEventReasons(self, handle: Board) -> int:
        return _known(self._whole(handle).reasons)

    nvmlDeviceGetCurrentClocksThrottleReasons = nvmlDeviceGetCurrentClocksEventReasons

    def nvmlDeviceGetMigMode(self, handle: Board) -> list[int]:
        if not handle.divided and not handle.instances:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)
        return [int(handle.divided), int(handle.divided)]

    def nvmlDeviceGetMaxMigDeviceCount(self, handle: Board) -> int:
        return 7

    def nvmlDeviceGetMigDeviceHandleByIndex(self, handle: Board, index: int) -> Board:
        found = handle.instances[index] if index < len(handle.instances) else None
        if found is None:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_FOUND)
        return found

    def _whole(self, handle: Board) -> Board:
        """An instance is asked for nothing that belongs to the whole GPU."""
        if handle.uuid.startswith("MIG"):
            raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)
        return handle


def _known(value: int | None) -> int:
    if value is None:
        raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)
    return value


def _raiser(number: int) -> Any:
    def refuse(*_: Any) -> Any:
        raise pynvml.NVMLError(number)

    return refuse
