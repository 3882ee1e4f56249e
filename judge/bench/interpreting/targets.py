"""The GPUs a candidate can be compiled and modelled for, with their published peaks."""

from __future__ import annotations

from dataclasses import dataclass, replace

KINDS = ("fp64", "fp32", "tf32", "fp16", "bf16", "fp8", "int8")


@dataclass(frozen=True)
class Target:
    """One GPU. Peaks are dense, without sparsity, in TFLOP/s; bandwidths in GB/s; sizes in bytes.

    `fp16` and `bf16` are tensor-core peaks with fp32 accumulation, `fp32` is outside the tensor cores.
    """

    name: str
    title: str
    sm_count: int
    dram_gb_s: float
    l2_gb_s: float
    l2_bytes: int
    fp64_tflops: float
    fp32_tflops: float
    tf32_tflops: float
    fp16_tflops: float
    bf16_tflops: float
    fp8_tflops: float
    int8_tflops: float  # of whole numbers
    shared_per_block_bytes: int
    launch_us: float = 4.0

    @property
    def arch(self) -> int:
        """The number Triton and ptxas use: 90 for sm_90."""
        return int(self.name.removeprefix("sm_"))

    @property
    def capability(self) -> tuple[int, int]:
        return divmod(self.arch, 10)

    def peak_tflops(self, kind: str) -> float:
        """Peak for one of KINDS of multiply-add. Raises ValueError."""
        if kind not in KINDS:
            raise ValueError(f"no peak for {kind!r}; known: {', '.join(KINDS)}")
        return float(getattr(self, f"{kind}_tflops"))


def _table() -> dict[str, Target]:
    """The table.

    Sources (vendor documents, all public):
    sm_80   NVIDIA A100 80GB SXM datasheet; A100 architecture whitepaper (L2 40 MB, 5,120 bytes a clock at 1.41 GHz).
    sm_86   NVIDIA A40 datasheet; GA102 architecture whitepaper (84 SMs, L2 6 MB).
    sm_89   NVIDIA L40S datasheet; Ada architecture whitepaper (142 SMs, L2 96 MB).
    sm_90   NVIDIA H100 SXM5 datasheet; Hopper architecture whitepaper (132 SMs, L2 50 MB).
    sm_100  NVIDIA HGX B200 datasheet, per GPU; Blackwell tuning guide (148 SMs, L2 126 MB).
    sm_120  GeForce RTX 5090: RTX Blackwell architecture whitepaper (170 SMs, L2 96 MB).
    Shared memory per block: CUDA C++ Programming Guide, "Technical Specifications per Compute Capability" (opt-in
    maximum: 163 KB on 8.0, 99 KB on 8.6, 8.9 and 12.0, 227 KB on 9.0 and 10.0).
    Only the A100's L2 bandwidth is published; the others are estimates of the order seen in public micro-benchmarks.
    The launch cost is an estimate for one kernel after another from Python; no vendor document gives it.
    """
    kib, mib = 1024, 1024 * 1024
    # name, title, SMs, DRAM, L2, L2 size, fp64, fp32, tf32, fp16, bf16, fp8, int8, shared memory
    rows = (
        Target(
            "sm_80", "NVIDIA A100 80GB SXM", 108, 2039, 7219, 40 * mib, 9.7, 19.5, 156, 312, 312, 312, 624, 163 * kib
        ),
        Target("sm_86", "NVIDIA A40", 84, 696, 2400, 6 * mib, 0.58, 37.4, 74.8, 149.7, 149.7, 149.7, 299.3, 99 * kib),
        Target("sm_89", "NVIDIA L40S", 142, 864, 5000, 96 * mib, 1.43, 91.6, 183, 362, 362, 733, 733, 99 * kib),
        Target("sm_90", "NVIDIA H100 SXM", 132, 3350, 5500, 50 * mib, 34, 67, 494, 989, 989, 1979, 1979, 227 * kib),
        Target("sm_100", "NVIDIA B200", 148, 8000, 10000, 126 * mib, 37, 75, 1100, 2250, 2250, 4500, 4500, 227 * kib),
        Target(
            "sm_120",
            "GeForce RTX 5090",
            170,
            1792,
            6500,
            96 * mib,
            1.64,
            104.8,
            104.8,
            209.5,
            209.5,
            419,
            838,
            99 * kib,
        ),
    )
    return {row.name: row for row in rows}


TARGETS: dict[str, Target] = _table()


# GPUs whose memory is another than that of their architecture's row above. Source: NVIDIA H200 datasheet (4.8 TB/s).
OWN_GB_S = {"NVIDIA H200": 4800.0}


def target_of_gpu(title: str, arch: str) -> Target:
    """The peaks of one GPU by the name that its driver reports. Raises ValueError for an unknown architecture."""
    found = target(arch)
    return replace(found, title=title, dram_gb_s=OWN_GB_S.get(title, found.dram_gb_s))


def target(name: str) -> Target:
    """The target called `name`, such as "sm_90". Raises ValueError that lists the known ones."""
    found = TARGETS.get(name)
    if found is None:
        raise ValueError(f"unknown GPU target {name!r}; known: {', '.join(TARGETS)}")
    return found
