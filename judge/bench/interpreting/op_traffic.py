"""Counts what torch's own operators move and compute: one launch per operator that is not a view."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import flop_registry

from judge.bench.interpreting.traffic import LaunchTraffic, Ledger, TrafficReport

_aten = torch.ops.aten

# Operators that start no kernel on a GPU.
_SILENT = frozenset(
    {
        "aten.empty", "aten.empty_like", "aten.empty_strided", "aten.new_empty", "aten.new_empty_strided",
        "aten.set_", "aten.resize_", "aten._local_scalar_dense", "aten.lift_fresh", "aten._unsafe_view",
        "aten.is_same_size", "aten.detach_", "aten.sym_size", "aten._reshape_alias", "aten.lift",
        "aten.record_stream", "aten.is_pinned", "aten.pin_memory", "aten._pin_memory",
    }
)  # fmt: skip

# Operators that write their first argument without reading it.
_OVERWRITES = frozenset({"aten.copy_", "aten.fill_", "aten.zero_", "aten.normal_", "aten.uniform_", "aten.bernoulli_"})

# Whole recurrent layers: one library call on a GPU, hundreds of small operators on a CPU.
_RECURRENT = {"lstm": 4, "gru": 3, "rnn_tanh": 1, "rnn_relu": 1}

_KINDS = {
    torch.float64: "fp64",
    torch.float16: "fp16",
    torch.bfloat16: "bf16",
    torch.int8: "int8",
    torch.float8_e4m3fn: "fp8",
    torch.float8_e5m2: "fp8",
}


def tensor_bytes(tensor: torch.Tensor) -> int:
    """Bytes a kernel must touch to see every element once; broadcast dimensions count once."""
    elements = 1
    for size, stride in zip(tensor.shape, tensor.stride(), strict=True):
        elements *= size if stride != 0 else min(size, 1)
    return int(elements * tensor.element_size())


def dot_kind(dtype: torch.dtype, packet: str) -> str:
    """Which peak a matrix product of this type uses, with torch's TF32 switches as they stand."""
    if dtype != torch.float32:
        return str(_KINDS.get(dtype, "fp32"))
    convolution = "conv" in packet
    allowed = torch.backends.cudnn.allow_tf32 if convolution else torch.backends.cuda.matmul.allow_tf32
    return "tf32" if allowed else "fp32"


def _attention_flops(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> int:
    """Two products per head: queries by keys, weights by values; causal masks save nothing here."""
    heads = query.shape[:-2].numel()
    return int(2 * heads * query.shape[-2] * key.shape[-2] * (query.shape[-1] + value.shape[-1]))


def _matrix_flops(packet: Any, args: tuple[Any, ...], kwargs: dict[str, Any], out: Any) -> int:
    if packet is _aten._scaled_dot_product_flash_attention_for_cpu:
        return _attention_flops(*args[:3])
    formula = _formula(packet)
    if formula is not None:
        return int(formula(*args, **kwargs, out_val=out))
    matrices = [tensor for tensor in _tensors((args, kwargs)) if tensor.dim()]
    if str(packet) in _VECTOR_PRODUCTS:
        return 2 * max((tensor.numel() for tensor in matrices), default=0)
    if str(packet).startswith(_OF_MATRICES):
        return 2 * max((tensor.numel() * tensor.shape[-1] for tensor in matrices), default=0)
    return 0


@cache
def _formula(packet: Any) -> Callable[..., Any] | None:
    """torch's count of operations of an operator, or of the one that it is in place."""
    plain = getattr(_aten, str(packet).removeprefix("aten.").removesuffix("_"), None)
    found: Callable[..., Any] | None = flop_registry.get(packet) or flop_registry.get(plain)
    return found


# Products that torch has no count of; of decompositions and inverses, which contain products, the least.
_VECTOR_PRODUCTS = frozenset({"aten.mv", "aten.addmv", "aten.addmv_", "aten.dot", "aten.vdot"})
_OF_MATRICES = ("aten.linalg_", "aten._linalg_", "aten.triangular_solve", "aten.cholesky", "aten.ormqr", "aten.lu_")


_BUILT_IN = frozenset(torch._C._dispatch_get_all_op_names())  # before anybody else has registered some
_CPU = torch._C.DispatchKeySet(torch._C.DispatchKey.CPU)


def is_added(func: Any) -> bool:
    """Whether the operator is none of torch's: what it computes is what it calls."""
    schema = func._schema
    return f"{schema.name}.{schema.overload_name}".rstrip(".") not in _BUILT_IN


def inside_added(mode: TorchDispatchMode, func: Any, args: Any, kwargs: Any) -> Any:
    """Run such an operator with what it calls under `mode`."""
    with mode:
        return func.redispatch(_CPU, *args, **kwargs) if is_added(func) else func.decompose(*args, **kwargs)


@cache
def is_made_of_others(func: Any) -> bool:
    """Whether what it calls is to be counted: that of an added operator, and what comes undivided from inside one."""
    key = torch._C.DispatchKey
    composite = func.has_kernel_for_dispatch_key
    return is_added(func) or (composite(key.CompositeImplicitAutograd) and not composite(key.CPU))


def replaced_operators() -> list[str]:
    """Operators of torch's that Python has given another kernel since, such as "aten/mul/CPU"."""
    if len(torch.library._impls) == len(_IMPLEMENTED):
        return []
    later = torch.library._impls - _IMPLEMENTED
    return sorted(name for name in later if name.startswith("aten/") and not name.endswith(_ELSEWHERE))


_IMPLEMENTED = frozenset(torch.library._impls)
_ELSEWHERE = ("/Meta", "/FuncTorchBatched")  # of no memory, and above the modes that count; torch.func adds some late


def is_silent(func: Any) -> bool:
    """Whether it starts no kernel on a GPU."""
    return str(func._overloadpacket) in _SILENT or is_view(func)


def is_view(func: Any) -> bool:
    """Whether the operator only re-describes memory: an output aliases an input that is not written."""
    returns = [r.alias_info for r in func._schema.returns]
    return bool(returns) and all(info is not None and not info.is_write for info in returns)


def _tensors(tree: Any) -> list[torch.Tensor]:
    return [leaf for leaf in tree_leaves(tree) if isinstance(leaf, torch.Tensor)]


class _OpCounter(TorchDispatchMode):  # type: ignore[misc]
    """Writes one launch into the ledger for each operator that starts a kernel."""

    def __init__(self, ledger: Ledger) -> None:
        super().__init__()
        self.ledger = ledger

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """False keeps torch from importing its compiler here: four seconds and a thread that forks cannot carry."""
        return False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        self.ledger.operators += 1
        if is_made_of_others(func):
            return inside_added(self, func, args, kwargs)
        if is_paused(self.ledger) or is_silent(func) or _is_onto_itself(func, args):
            return func(*args, **kwargs)
        inside = _Products(self.ledger)
        out = inside.run(func, args, kwargs) if _may_multiply(func, args) else func(*args, **kwargs)
        self.ledger.add(_operator_traffic(func, args, kwargs, out, inside.flops))
        return out


def _may_multiply(func: Any, args: Any) -> bool:
    """Whether an operator of which no operations are known takes two dense matrices or more."""
    matrices = [tensor for tensor in _tensors(args) if tensor.dim() > 1 and tensor.layout is torch.strided]
    wanted = [argument.type.kind() == "TensorType" for argument in func._schema.arguments]
    numbers = any(tensor and isinstance(value, int | float) for tensor, value in zip(wanted, args, strict=False))
    return len(matrices) > 1 and _formula(func._overloadpacket) is None and not numbers


class _Products(TorchDispatchMode):  # type: ignore[misc]
    """Adds up the products that one operator computes by calling others, as addbmm does."""

    def __init__(self, ledger: Ledger) -> None:
        super().__init__()
        self.ledger = ledger
        self.flops = self.called = 0

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """See `_OpCounter`."""
        return False

    def run(self, func: Any, args: Any, kwargs: Any) -> Any:
        """The operator itself, within this mode, whose turns count in its place."""
        with self:
            out = func.redispatch(_CPU, *args, **kwargs)
        self.ledger.operators += max(0, self.called - 1)
        return out

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if is_made_of_others(func):
            return inside_added(self, func, args, kwargs)
        self.called += 1
        out = func(*args, **kwargs)
        self.flops += _matrix_flops(func._overloadpacket, args, kwargs, out)
        return out


def _is_onto_itself(func: Any, args: Any) -> bool:
    """A copy of memory onto itself, which is how a launch hands its arguments back where nothing had to move."""
    return str(func._overloadpacket) == "aten.copy_" and args[0].data_ptr() == args[1].data_ptr()


def _operator_traffic(func: Any, args: Any, kwargs: Any, out: Any, inside: int) -> LaunchTraffic:
    """`inside`: operations in products that it computed by calling others."""
    packet = func._overloadpacket
    name = str(packet)
    inputs, outputs = _tensors((args, kwargs)), _tensors(out)
    if name in _OVERWRITES:
        inputs = inputs[1:]
    if name == "aten.embedding":  # reads the rows it gathers, not the table
        inputs = [*inputs[1:], *outputs]
    moved = sum(map(tensor_bytes, inputs)) + sum(map(tensor_bytes, outputs))
    flops = _matrix_flops(packet, args, kwargs, out) or inside
    floating = [t.numel() for t in (*inputs, *outputs) if t.is_floating_point()]
    kind = dot_kind(inputs[0].dtype, name) if inputs else "fp32"
    return LaunchTraffic(
        name=name,
        origin="torch",
        logical_bytes=moved,
        sector_bytes=moved,
        unique_bytes=moved,
        elementwise_flops=0 if flops or "copy" in name or "clone" in name else max(floating, default=0),
        dot_flops={kind: flops} if flops else {},
    )


class _RecurrentCounter(TorchFunctionMode):  # type: ignore[misc]
    """Counts a recurrent layer stack as the library calls it is on a GPU, one per layer and direction."""

    def __init__(self, ledger: Ledger) -> None:
        super().__init__()
        self.ledger = ledger

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = getattr(func, "__name__", "")
        if name not in _RECURRENT or is_paused(self.ledger) or len(args) < 6:
            return func(*args, **(kwargs or {}))
        out = self._whole(func, args, kwargs or {})
        for row in _recurrent_traffic(name, args, out):
            self.ledger.add(row)
        return out

    def _whole(self, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        with self.ledger.pause():
            return func(*args, **kwargs)


_PAUSER = _RecurrentCounter._whole.__code__  # what operators are not counted in: it counts for them
OWN_COMPUTE: set[CodeType] = set()  # what computes by torch a part of a kernel's work, which the kernel counts
_ON_THE_WAY = (f"{Path(torch.__file__).parent}/", f"{Path(__file__).parent}/")


def is_paused(ledger: Ledger) -> bool:
    """Whether an operator is part of what is counted otherwise. The flag alone says nothing: anybody could set it."""
    caller: FrameType | None = sys._getframe(1)
    while caller is not None and caller.f_code not in OWN_COMPUTE and caller.f_code.co_filename.startswith(_ON_THE_WAY):
        caller = caller.f_back
    if caller is not None and caller.f_code in OWN_COMPUTE:
        return True
    frame = sys._getframe(1) if ledger.paused else None
    while frame is not None and frame.f_code is not _PAUSER:
        frame = frame.f_back
    return frame is not None


def _recurrent_traffic(name: str, args: Sequence[Any], out: Any) -> Iterator[LaunchTraffic]:
    """cuDNN's view of one call: per layer and direction the weights once, its input and output sequences, two GEMMs."""
    sequence, weights = args[0], next(a for a in args[2:] if isinstance(a, list | tuple) and len(a) > 1)
    matrices = [w for w in weights if w.dim() == 2]
    steps = sequence.numel() // sequence.shape[-1]
    for first in range(0, len(matrices), 2):
        pair = matrices[first : first + 2]
        hidden = pair[0].shape[0] // _RECURRENT[name]
        moved = sum(map(tensor_bytes, pair)) + steps * (pair[0].shape[1] + hidden) * sequence.element_size()
        yield LaunchTraffic(
            name=f"aten.{name}",
            origin="torch",
            logical_bytes=moved,
            sector_bytes=moved,
            unique_bytes=moved,
            elementwise_flops=steps * pair[0].shape[0],
            dot_flops={dot_kind(sequence.dtype, "conv"): 2 * steps * sum(w.numel() for w in pair)},
        )


@contextmanager
def counting_ops(ledger: Ledger) -> Iterator[Ledger]:
    """Within it, every torch operator of this thread is written into `ledger`."""
    with _RecurrentCounter(ledger), _OpCounter(ledger):
        yield ledger


def eager_traffic(fn: Callable[..., Any], args: Sequence[Any]) -> TrafficReport:
    """What `fn(*args)` launches when torch runs it operator by operator, gradients off. Runs it once."""
    ledger = Ledger()
    with torch.no_grad(), counting_ops(ledger):
        fn(*args)
    return ledger.report()
