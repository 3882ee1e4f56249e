"""What a problem's numerics are called, and what torch's TF32 switches say under each. Standard library only."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from enum import StrEnum


class Precision(StrEnum):
    """The numerics of a problem: the switches of torch, and the coarsest arithmetic a candidate may use with them."""

    STRICT = "strict"  # error within a small factor of the honest reference in the same dtype, TF32 off
    SHIPPED = "shipped"  # as PyTorch ships: cuDNN may use TF32 (convolutions, recurrent layers), products may not
    TF32 = "tf32"  # TF32 wherever torch has it
    HALF = "half"  # bfloat16 or float16 arithmetic is allowed, TF32 too


@dataclass(frozen=True)
class Switches:
    """Where torch may use TF32 for float32 operands."""

    matmul: bool  # torch.backends.cuda.matmul: products by cuBLAS
    cudnn: bool  # torch.backends.cudnn: convolutions and recurrent layers

    def coarse(self, operators: Collection[str]) -> frozenset[str]:
        """Those of `operators` (names of ATen) that these switches let compute in TF32."""
        return frozenset(
            name for name in operators if (self.matmul and is_product(name)) or (self.cudnn and is_cudnn(name))
        )


SWITCHES = {
    Precision.STRICT: Switches(matmul=False, cudnn=False),
    Precision.SHIPPED: Switches(matmul=False, cudnn=True),
    Precision.TF32: Switches(matmul=True, cudnn=True),
    Precision.HALF: Switches(matmul=True, cudnn=True),
}
PRECISIONS = {  # names in files, commands and stored texts
    Precision.STRICT: "strict",
    Precision.SHIPPED: "as PyTorch ships",
    Precision.TF32: "TF32",
    Precision.HALF: "half",
}
_PRODUCTS = frozenset({"mm", "bmm", "addmm", "baddbmm", "addmv", "mv", "dot", "vdot", "addbmm", "linear", "addr"})
_RECURRENT = frozenset({"_cudnn_rnn", "mkldnn_rnn_layer", "lstm", "gru", "rnn_tanh", "rnn_relu"})


def is_product(operator: str) -> bool:
    """Whether ATen's operator of this name is a matrix product, attention included."""
    return operator in _PRODUCTS or "scaled_dot_product" in operator


def is_convolution(operator: str) -> bool:
    """Whether it is a convolution, transposed ones included."""
    return "convolution" in operator


def is_cudnn(operator: str) -> bool:
    """Whether cuDNN computes it on a GPU and its own TF32 switch counts."""
    return is_convolution(operator) or operator in _RECURRENT
