"""CUDA's libdevice functions for the interpreter, computed by torch on the CPU.

Triton maps `libdevice.f` to a bitcode library that only a compiled kernel can call. The shims keep its names. Results
agree to a few units in the last place; the `fast_` and directed-rounding forms are computed to nearest.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
import triton.language as tl
from triton.runtime import interpreter as triton_interpreter
from triton.runtime.interpreter import TensorHandle

from judge.bench.interpreting.builder import Unsupported
from judge.bench.interpreting.op_traffic import OWN_COMPUTE

_MODULES = ("triton.language.extra.libdevice", "triton.language.extra.cuda.libdevice")

_SHIMS: dict[str, Callable[..., torch.Tensor]] = {
    "abs": torch.abs, "fabs": torch.abs, "acos": torch.acos, "acosh": torch.acosh, "asin": torch.asin,
    "asinh": torch.asinh, "atan": torch.atan, "atanh": torch.atanh, "ceil": torch.ceil, "cos": torch.cos,
    "cosh": torch.cosh, "erf": torch.erf, "erfc": torch.erfc, "erfcinv": lambda x: torch.erfinv(1 - x),
    "erfinv": torch.erfinv, "erfcx": torch.special.erfcx, "exp": torch.exp, "exp2": torch.exp2,
    "expm1": torch.expm1, "floor": torch.floor, "j0": torch.special.bessel_j0, "j1": torch.special.bessel_j1,
    "lgamma": torch.lgamma, "log": torch.log, "log10": torch.log10, "log1p": torch.log1p, "log2": torch.log2,
    "normcdf": torch.special.ndtr, "normcdfinv": torch.special.ndtri, "rcp_rn": torch.reciprocal,
    "nearbyint": torch.round, "rint": torch.round, "rsqrt": torch.rsqrt, "sin": torch.sin, "sinh": torch.sinh,
    "sqrt": torch.sqrt, "tan": torch.tan, "tanh": torch.tanh, "tgamma": lambda x: torch.lgamma(x).exp(),
    "trunc": torch.trunc, "y0": torch.special.bessel_y0, "y1": torch.special.bessel_y1,
    "exp10": lambda x: torch.pow(torch.tensor(10, dtype=x.dtype), x),
    "cbrt": lambda x: torch.sign(x) * torch.abs(x).pow(1 / 3),
    "rcbrt": lambda x: 1 / (torch.sign(x) * torch.abs(x).pow(1 / 3)),
    "cospi": lambda x: torch.cos(x * torch.pi), "sinpi": lambda x: torch.sin(x * torch.pi),
    "round": lambda x: torch.sign(x) * torch.floor(torch.abs(x) + 0.5), "llrint": lambda x: torch.round(x).long(),
    "saturatef": lambda x: torch.clamp(x, 0, 1), "sqrt_rn": torch.sqrt,
    "logb": lambda x: torch.floor(torch.log2(x.abs())),
    "fast_cosf": torch.cos, "fast_expf": torch.exp, "fast_log10f": torch.log10, "fast_log2f": torch.log2,
    "fast_logf": torch.log, "fast_sinf": torch.sin, "fast_tanf": torch.tan, "fast_tanhf": torch.tanh,
    "fast_exp10f": lambda x: torch.pow(torch.tensor(10, dtype=x.dtype), x),
    "float2int_rn": lambda x: torch.round(x).int(), "float2int_rz": lambda x: torch.trunc(x).int(),
    "float2int_rd": lambda x: torch.floor(x).int(), "float2int_ru": lambda x: torch.ceil(x).int(),
    "add_rn": torch.add, "atan2": torch.atan2, "copysign": torch.copysign, "div_rn": torch.div,
    "fast_dividef": torch.div, "fast_powf": torch.pow, "fdim": lambda x, y: torch.clamp(x - y, min=0),
    "fmod": torch.fmod, "hypot": torch.hypot, "max": torch.maximum, "min": torch.minimum, "mul_rn": torch.mul,
    "nextafter": torch.nextafter, "pow": torch.pow, "sub_rn": torch.sub,
    "ldexp": lambda x, n: torch.ldexp(x, n), "scalbn": lambda x, n: torch.ldexp(x, n),
    "remainder": lambda x, y: x - torch.round(x / y) * y,
    **dict.fromkeys(("fma", "fma_rn"), lambda x, y, z: (x.double() * y.double() + z.double()).to(x.dtype)),
    "finitef": torch.isfinite, "isfinited": torch.isfinite, "isinf": torch.isinf, "isnan": torch.isnan,
    "signbit": torch.signbit,
}  # fmt: skip


def install() -> None:
    """Put the shims into both libdevice modules; every other function there becomes Unsupported."""
    for path in _MODULES:
        module = importlib.import_module(path)
        for name, value in list(vars(module).items()):
            if callable(value) and not isinstance(value, type) and not name.startswith("_"):
                setattr(module, name, _shim(name))


def _shim(name: str) -> Callable[..., Any]:
    compute = _SHIMS.get(name)

    def function(*args: Any, _semantic: Any = None, **kwargs: Any) -> Any:
        if compute is None:
            raise Unsupported(f"libdevice.{name} runs on a GPU only")
        return _apply(compute, args)

    function.__name__ = name
    return function


def _apply(compute: Callable[..., torch.Tensor], args: tuple[Any, ...]) -> Any:
    semantic = triton_interpreter.interpreter_semantic
    tensors = [arg if isinstance(arg, tl.core.tensor) else semantic.to_tensor(_plain(arg)) for arg in args]
    arrays = [torch.from_numpy(np.ascontiguousarray(t.handle.data)) for t in tensors]
    counter = getattr(triton_interpreter.interpreter_builder, "counter", None)
    if counter is not None:
        counter.arithmetic(max(a.numel() for a in arrays))
    result = compute(*torch.broadcast_tensors(*arrays)).numpy()
    dtype = _result_type(result.dtype, tensors[0].dtype)
    shape = next((t.shape for t in tensors if t.type.is_block() and len(t.shape) == result.ndim), None)
    block = tl.block_type(dtype, list(result.shape)) if shape is not None else dtype
    return tl.core.tensor(TensorHandle(result, dtype), block)


def _plain(value: Any) -> Any:
    return value.value if isinstance(value, tl.constexpr) else value


def _result_type(found: np.dtype[Any], first: Any) -> Any:
    if found == np.bool_:
        return tl.int1
    if found == np.int32:
        return tl.int32
    return tl.int64 if found == np.int64 else first.scalar


OWN_COMPUTE.update(
    function.__code__ for function in (*_SHIMS.values(), _apply) if getattr(function, "__module__", "") == __name__
)
