"""Is another case too much for the candidate on this device? What the reference needs on it decides, measured here.

A case of about the usual size is no excuse. For a larger one, running out of memory is excused where MEMORY times what
the reference needs, and ROOM_BYTES, may not be had; on the CPU never, since the referee has answered it under the same
limit, in wider types as well. Running out of time is excused where TIME times the reference's may be more than the
limit of one call. Interpreted kernels take thousands of times the reference's: there the candidate's own pace on the
evaluated case counts, of which no more is believed than its counted accesses explain.
"""

from __future__ import annotations

import time

import torch

from judge.bench.audit.setting import Setting, elements
from judge.bench.device import gpu
from judge.bench.device.memory import CHILD_SHARE
from judge.bench.exchange.contact import SubjectFailed
from judge.bench.exchange.nested import cloned
from judge.bench.foreign.whereabouts import FORWARD
from judge.bench.interpreting.op_traffic import eager_traffic
from judge.bench.judging.asking import Question
from judge.bench.judging.reference import REFUSALS, Reference

LARGER = 2.0  # times the elements of the evaluated case
MEMORY, ROOM_BYTES = 4.0, 1 << 30
TIME = 100.0
INTERPRETED = 4.0  # times its own pace, scaled by the reference's work


def is_excused(setting: Setting, failed: SubjectFailed, reference: Reference, question: Question) -> bool:
    """Whether the case of `reference` and `question`, on which the candidate failed, is left out for it.

    `setting.usual` is the evaluated case. What the reference itself does not get here excuses everybody.
    """
    if failed.kind == "too_large":  # what we asked
        return True
    usual = setting.usual
    if failed.kind not in ("oom", "timeout") or usual is None:
        return False
    if elements(question) <= LARGER * elements(usual.question):
        return False
    try:
        if failed.kind == "oom":
            return setting.device != "cpu" and _lacks_memory(setting, reference, question)
        limit_s = float(setting.assignment.payload["stage_s"])
        if setting.interprets:
            return INTERPRETED * usual.pace_s * _more_work(setting, reference, question) > limit_s
        return TIME * _reference_s(setting, reference, question) > limit_s
    except (*REFUSALS, MemoryError):
        return True


def _lacks_memory(setting: Setting, reference: Reference, question: Question) -> bool:
    most = CHILD_SHARE * torch.cuda.get_device_properties(setting.device).total_memory
    needed = MEMORY * _reference_bytes(setting, reference, question) + ROOM_BYTES
    return bool(needed > min(most, gpu.free_bytes(setting.device)))


def _reference_bytes(setting: Setting, reference: Reference, question: Question) -> int:
    """Parameters, inputs and all that one call of the reference holds at a time on the GPU."""
    gpu.settle(setting.device)
    torch.cuda.reset_peak_memory_stats(setting.device)
    before = torch.cuda.memory_allocated(setting.device)
    reference.run(cloned(question.inputs), question.state, question.seed)
    gpu.settle(setting.device)
    peak = int(torch.cuda.max_memory_allocated(setting.device)) - before
    return int(peak + sum(tensor.nbytes for tensor in question.state.values()))


def _reference_s(setting: Setting, reference: Reference, question: Question) -> float:
    inputs = cloned(question.inputs)
    gpu.settle(setting.device)
    began = time.monotonic()
    reference.run(inputs, question.state, question.seed)
    gpu.settle(setting.device)
    return time.monotonic() - began


def _more_work(setting: Setting, reference: Reference, question: Question) -> float:
    """How many times the bytes or operations of the evaluated case the reference takes here, whichever is more."""
    assert setting.usual is not None
    usual = _work(setting.reference, setting.usual.question)
    return max(here / max(1, there) for here, there in zip(_work(reference, question), usual, strict=True))


def _work(reference: Reference, question: Question) -> tuple[int, int, int]:
    reference.load(question.state)
    with reference.whereabouts.inside(FORWARD):
        report = eager_traffic(reference.model, cloned(question.inputs))
    return report.total("unique_bytes"), report.elementwise_flops, sum(report.dot_flops.values())
