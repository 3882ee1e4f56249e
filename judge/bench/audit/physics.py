"""Could anything be this fast? The bytes that must move, over the bandwidth of this GPU's memory.

That is what its clock and bus allow, or what it was just seen to reach if that is more: others who use the GPU lower
what is seen, and nobody is suspect for that.
"""

from __future__ import annotations

import torch

from judge.bench.admission.graph import compulsory_bytes, trace_report
from judge.bench.audit.setting import STAGE, Setting
from judge.bench.device.bandwidth import bandwidth_bytes_per_us, nominal_bytes_per_us
from judge.bench.device.gpu_lock import GpuLock
from judge.bench.exchange.nested import cloned
from judge.bench.foreign.whereabouts import FORWARD
from judge.bench.judging.asking import Question
from judge.bench.judging.completion import Ended
from judge.values import Verdict

MARGIN = 0.9
UNKNOWN_L2 = 64 << 20


def least_us(read_bytes: int, written_bytes: int, l2_bytes: int, bytes_per_us: float) -> float:
    """Time below which the bytes cannot have moved: what was read came from DRAM, what was written may stay in L2."""
    return (read_bytes + max(0, written_bytes - l2_bytes)) / bytes_per_us


def peak_bytes_per_us(device: str) -> float:
    """Bytes a microsecond that the memory moves at most. Hold the GPU alone meanwhile."""
    return max(bandwidth_bytes_per_us(device), nominal_bytes_per_us(device))


def check_roofline(setting: Setting, question: Question, lock: GpuLock) -> str:
    """Raises Ended (`physics.roofline`) for a measured time that no DRAM of this device allows."""
    assert setting.candidate_us is not None
    with lock.alone():
        peak = peak_bytes_per_us(setting.device)
    l2_bytes = int(getattr(torch.cuda.get_device_properties(setting.device), "L2_cache_size", 0)) or UNKNOWN_L2
    floor_us = 0.0
    for exact in (False, True):  # the graph says what is only gathered from; tracing it pays when in doubt
        read, written = moved_bytes(setting, question, exact=exact)
        floor_us = least_us(read, written, l2_bytes, peak)
        if setting.candidate_us >= MARGIN * floor_us:
            return f"{setting.candidate_us:.1f} µs; at {peak / 1e6:.2f} TB/s its bytes take {floor_us:.1f} µs"
    raise Ended(
        Verdict.SUSPECT,
        STAGE,
        "physics.roofline",
        f"{setting.candidate_us:.2f} µs is less than the {floor_us:.2f} µs in which {(read + written) / 1e6:.1f} MB "
        f"can move at {peak / 1e6:.2f} TB/s, the most that this GPU's memory does",
    )


def moved_bytes(setting: Setting, question: Question, *, exact: bool) -> tuple[int, int]:
    """(read, written) bytes of forward alone; (0, 0), which bounds nothing, where there is no exact graph."""
    gradients, model = setting.reference.gradients, setting.reference.model
    inputs, outputs = gradients.arguments(question.inputs), gradients.forward_part(question.expected.same)
    if not isinstance(model, torch.nn.Module):
        return 0, 0
    graph = None
    if exact:
        with setting.reference.whereabouts.inside(FORWARD):
            graph = trace_report(model, cloned(inputs)).graph
        if graph is None:
            return 0, 0
    written = compulsory_bytes(torch.nn.Module(), [], outputs, None)
    return compulsory_bytes(model, inputs, outputs, graph) - written, written
