"""Who takes part in a measurement, and one entry for each way to run the reference beside a candidate.

A further baseline is a subject and an entry here, and a migration of the choices that stored measurements have; what it
does to the model stands in `judge/bench/subjects/baseline_models.py`. Standard library only.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from enum import StrEnum

from judge.values.numerics import PRECISIONS, SWITCHES, Precision, is_convolution, is_cudnn, is_product


class Subject(StrEnum):
    CANDIDATE = "candidate"
    EAGER = "eager"
    SHIPPED = "eager-shipped"  # eager under the numerics that PyTorch ships with
    STRICT = "eager-strict"  # eager without TF32
    COMPILE = "compile"  # torch.compile, default mode
    AUTOTUNE = "max-autotune"  # torch.compile, mode max-autotune
    BENCHMARK = "cudnn-benchmark"  # cuDNN tries its algorithms
    CHANNELS_LAST = "channels-last"  # weights in that layout, and cuDNN tries its algorithms
    SDPA = "sdpa"  # attention by torch's own function
    AUTOCAST = "autocast"  # eager under autocast to bfloat16
    INCUMBENT = "incumbent"  # the best kernel so far


class When(StrEnum):
    """When a baseline is timed."""

    PAIRED = "paired"  # in every measurement, by turns with the candidate
    BEST = "best"  # once a problem, alone, after the audit of a new best: in a stage and under a time limit of its own


class Needs(StrEnum):
    """What must be true of a reference, so that a baseline is another one than eager; the text says what is not."""

    NOTHING = ""
    TF32 = "the same as eager: no operator uses TF32 under one of the two and not under the other"
    CONVOLUTION = "the reference has no convolution"
    ATTENTION = "the reference has no softmax between two products"
    HALF = "the numerics allow no 16-bit arithmetic, or the reference does none in 32 bits"


@dataclass(frozen=True)
class Baseline:
    """`name` is that of its child and of the child's mode; a report has its speedup as `speedup_` + name.

    A failure is the problem's fault where `stage` is empty. Else it costs nothing: the outcome's environment says why
    under `baselines` and the baseline's name.
    """

    name: str
    subject: Subject
    label: str
    when: When = When.BEST
    stage: str = ""
    limit_s: float = 0.0  # of that stage
    setting: str = ""  # that asks for it; empty: it is timed unasked
    needs: Needs = Needs.NOTHING
    gpu_only: bool = True
    mode: str = ""  # of torch.compile; empty: the module is not compiled
    precision: Precision | None = None  # numerics of its own; None: the problem's
    benchmark: bool = False  # torch.backends.cudnn.benchmark
    channels_last: bool = False
    attention: bool = False  # softmax(QK^T)V becomes scaled_dot_product_attention
    autocast: bool = False

    @property
    def key(self) -> str:
        """Of its speedup in a report."""
        return f"speedup_{self.name}"

    def why_not(self, *, precision: Precision, operators: Collection[str], fp32: Collection[str], on_gpu: bool) -> str:
        """Why it is not timed for a reference with these numerics; empty where it is.

        `operators` are names of ATen, `fp32` those of them that were given operands of 32 bits.
        """
        if self.gpu_only and not on_gpu:
            return "left out: only on a GPU"
        held = {
            Needs.NOTHING: True,
            Needs.TF32: SWITCHES[self.precision or precision].coarse(fp32) != SWITCHES[precision].coarse(fp32),
            Needs.CONVOLUTION: any(map(is_convolution, operators)),
            Needs.ATTENTION: "_softmax" in operators and any(map(is_product, operators)),
            Needs.HALF: precision is Precision.HALF and any(is_product(name) or is_cudnn(name) for name in fp32),
        }
        return "" if held[self.needs] else f"left out: {self.needs.value}"


QUICK_S, COMPILE_S, AUTOTUNE_S = 60.0, 180.0, 300.0  # time limits; the last one tries many configurations
BASELINES = {
    one.name: one
    for one in (
        Baseline("eager", Subject.EAGER, "eager", When.PAIRED, gpu_only=False),
        Baseline(
            "shipped",
            Subject.SHIPPED,
            f"eager, {PRECISIONS[Precision.SHIPPED]}",
            stage="eager_shipped",
            limit_s=QUICK_S,
            needs=Needs.TF32,
            precision=Precision.SHIPPED,
        ),
        Baseline(
            "strict",
            Subject.STRICT,
            f"eager, {PRECISIONS[Precision.STRICT]}",
            stage="eager_strict",
            limit_s=QUICK_S,
            needs=Needs.TF32,
            precision=Precision.STRICT,
        ),
        Baseline(
            "benchmark",
            Subject.BENCHMARK,
            "eager, cudnn.benchmark",
            stage="cudnn_benchmark",
            limit_s=QUICK_S,
            needs=Needs.CONVOLUTION,
            benchmark=True,
        ),
        Baseline(
            "channels_last",
            Subject.CHANNELS_LAST,
            "eager, channels-last and cudnn.benchmark",
            stage="channels_last",
            limit_s=QUICK_S,
            needs=Needs.CONVOLUTION,
            gpu_only=False,
            benchmark=True,
            channels_last=True,
        ),
        Baseline(
            "sdpa",
            Subject.SDPA,
            "eager, scaled_dot_product_attention",
            stage="sdpa",
            limit_s=QUICK_S,
            needs=Needs.ATTENTION,
            gpu_only=False,
            attention=True,
        ),
        Baseline(
            "autocast",
            Subject.AUTOCAST,
            "eager, autocast to bfloat16",
            stage="autocast",
            limit_s=QUICK_S,
            needs=Needs.HALF,
            autocast=True,
        ),
        Baseline(
            "compile",
            Subject.COMPILE,
            "torch.compile",
            stage="torch_compile",
            limit_s=COMPILE_S,
            gpu_only=False,
            mode="default",
        ),
        Baseline(
            "autotune",
            Subject.AUTOTUNE,
            "torch.compile, max-autotune",
            stage="max_autotune",
            limit_s=AUTOTUNE_S,
            setting="JUDGE_MAX_AUTOTUNE",
            gpu_only=False,
            mode="max-autotune",
        ),
    )
}
ALTERNATIVES = tuple(one for one in BASELINES.values() if one.when is not When.PAIRED)  # their times are kept
