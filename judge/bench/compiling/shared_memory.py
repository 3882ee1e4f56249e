"""Refuses kernels that need more shared memory than the target has before the slow parts of compiling see them.

Lowering and ptxas take seconds to minutes over tiles far too large; where shared memory goes is known long before.
"""

from __future__ import annotations

import tempfile
from typing import Any

from triton._C.libtriton import ir, nvidia, passes
from triton.backends.nvidia import compiler
from triton.runtime.errors import OutOfResources

from judge.bench.interpreting.targets import Target


def refuse_early(target: Target) -> None:
    """Let this process's compilations raise OutOfResources as soon as they can."""
    original_llir, original_cubin = compiler.CUDABackend.make_llir, compiler.CUDABackend.make_cubin

    def make_llir(self: Any, src: Any, metadata: Any, options: Any, capability: Any) -> Any:
        _check(allocated(src, self.target.arch, options, capability), target)
        return original_llir(self, src, metadata, options, capability)

    def make_cubin(self: Any, src: Any, metadata: Any, *args: Any, **kwargs: Any) -> Any:
        _check(metadata.get("shared") or 0, target)
        return original_cubin(self, src, metadata, *args, **kwargs)

    compiler.CUDABackend.make_llir = make_llir
    compiler.CUDABackend.make_cubin = make_cubin


def allocated(module: Any, arch: int, options: Any, capability: Any) -> int:
    """Bytes of shared memory per block of a TTGIR module, as Triton's own passes find it on a copy.

    0 where this version of Triton has other passes: then the compilation itself finds out.
    """
    try:
        version = compiler.get_ptx_version_from_options(options, arch)
        with tempfile.NamedTemporaryFile("w", suffix=".ttgir") as file:
            file.write(str(module))
            file.flush()
            copy = ir.parse_mlir_module(file.name, module.context)
        manager = ir.pass_manager(module.context)
        passes.ttgpuir.add_combine_tensor_select_and_if(manager)
        _allocate_warp_groups(manager)
        passes.convert.add_scf_to_cf(manager)
        passes.gluon.add_inliner(manager)
        nvidia.passes.ttgpuir.add_allocate_shared_memory_nv(manager, capability, version)
        manager.run(copy, "shared_memory")
        return int(copy.get_int_attr("ttg.shared") or 0)
    except (AttributeError, TypeError, RuntimeError):
        return 0


def _allocate_warp_groups(manager: Any) -> None:
    """From Triton 3.8 on the pass takes whether a sanitizer is on."""
    try:
        passes.ttgpuir.add_allocate_warp_groups(manager)
    except TypeError:
        passes.ttgpuir.add_allocate_warp_groups(manager, False)


def _check(needed: int, target: Target) -> None:
    if needed > target.shared_per_block_bytes:
        raise OutOfResources(needed, target.shared_per_block_bytes, "shared memory")
