"""How much of the time is spent in the candidate's own Triton kernels: by the GPU's own trace, or modelled."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from judge.bench.audit.launch_checks import FOREIGN, Kernels
from judge.bench.audit.setting import Setting, dishonest
from judge.bench.exchange.nested import cloned
from judge.bench.exchange.rows import CountedRow, TracedRow
from judge.bench.foreign.whereabouts import FORWARD
from judge.bench.interpreting.op_traffic import eager_traffic
from judge.bench.interpreting.targets import target as target_named
from judge.bench.interpreting.timemodel import kernel_time_us
from judge.bench.interpreting.traffic import TrafficReport
from judge.bench.judging.asking import Question
from judge.bench.subjects.watch import traffic_report
from judge.values import Library

ENOUGH = 0.3  # KernelGYM's threshold: below it, somebody else does the work
COMPILER_NAMES = ("triton_poi_", "triton_red_", "triton_per_", "triton_tem_", "triton_for_", "triton_unk_")
MOST_PRODUCTS = 0.5  # of the reference's, that torch may compute where the problem refuses library compute
MOST_NAMED = 12


@dataclass(frozen=True)
class Share:
    """Microseconds of each kernel by name, longest first; which of them are the candidate's own, or torch.compile's."""

    spent: tuple[tuple[str, float], ...]
    own: frozenset[str]
    compiler: frozenset[str]
    modelled: bool

    @property
    def total_us(self) -> float:
        return sum(us for _, us in self.spent)

    @property
    def value(self) -> float:
        own_us = sum(us for name, us in self.spent if name in self.own)
        return own_us / self.total_us if self.total_us > 0 else 0.0

    @property
    def foreign(self) -> list[tuple[str, float]]:
        return [(name, us) for name, us in self.spent if name not in self.own]


def from_trace(rows: Iterable[TracedRow], kernels: Kernels) -> Share | None:
    """From what the GPU ran in one call; None when it ran nothing."""
    spent: dict[str, float] = {}
    for row in rows:
        spent[row.name] = spent.get(row.name, 0.0) + row.us
    if not spent:
        return None
    own = frozenset(name for name in spent if name in kernels.ran)
    compiler = frozenset(name for name in spent if name not in own and name.startswith(COMPILER_NAMES))
    return _share(spent, own, compiler, modelled=False)


def from_traffic(rows: Sequence[CountedRow], target: str) -> Share | None:
    """From counted traffic, by the time model; None when nothing was counted."""
    report = traffic_report(rows)
    if not report.kernels:
        return None
    spent: dict[str, float] = {}
    own: set[str] = set()
    for row in report.kernels:
        _, us, _ = kernel_time_us(TrafficReport((row,)), target_named(target))
        spent[row.name] = spent.get(row.name, 0.0) + us
        if row.origin == "triton":
            own.add(row.name)
    return _share(spent, frozenset(own), frozenset(), modelled=True)


def _share(spent: dict[str, float], own: frozenset[str], compiler: frozenset[str], *, modelled: bool) -> Share:
    return Share(tuple(sorted(spent.items(), key=lambda row: -row[1])), own, compiler, modelled)


def _profile(setting: Setting, share: Share) -> None:
    parts = [f"{name[:60]} {us:.1f} µs" for name, us in share.spent[:4]]
    rows = [[name[:120], round(us, 3), name in share.own] for name, us in share.spent[:40]]
    setting.note("profile.kernels", f"{len(share.spent)} kernels in one call: {', '.join(parts)}", kernels=rows)


def check_compiler(setting: Setting, share: Share | None, kernels: Kernels) -> None:
    """Say or refuse that torch.compile did some of the work. Raises Ended."""
    made = sorted({*(share.compiler if share else ()), *kernels.compiler})
    if setting.library is Library.ALLOW or not (made or kernels.graphs):
        return
    message = f"uses torch.compile: {kernels.graphs} graphs, {len(made)} of the kernels it runs"
    message += f" ({', '.join(made[:MOST_NAMED])})" if made else ""
    if setting.library is Library.REFUSE:
        raise dishonest(FOREIGN, f"{message}; the problem refuses library compute")
    setting.note("library.compiler", message, kernels=made[:40], graphs=kernels.graphs)


def check_products(setting: Setting, question: Question, rows: Iterable[CountedRow]) -> None:
    """Raise Ended where the problem refuses library compute and torch computes most of the reference's products.

    By time alone they may be a small part: kernels that only move everything take longer, as the model has it.
    """
    products = sum(sum(row.dot_flops.values()) for row in rows if row.origin == "torch")
    if setting.library is not Library.REFUSE or not products:
        return
    reference = setting.reference
    reference.load(question.state)
    with reference.whereabouts.inside(FORWARD):
        arguments = reference.gradients.arguments(question.inputs)
        whole = sum(eager_traffic(reference.model, cloned(arguments)).dot_flops.values())
    if products >= MOST_PRODUCTS * whole:
        part = f"{products:,} of the {whole:,} operations in products that the reference takes"
        raise dishonest(FOREIGN, f"torch computes {part}; the problem refuses library compute")


def check_share(setting: Setting, share: Share, kernels: Kernels) -> str:
    """Say or refuse what the policy says or refuses. Raises Ended."""
    policy = setting.library
    basis = "modelled" if share.modelled else "traced on the GPU"
    if not share.modelled:
        _profile(setting, share)
    text = f"{share.value:.0%} of the time is in its own Triton kernels ({basis})"
    if policy is Library.ALLOW:
        return text
    if share.value < ENOUGH and kernels.launched:  # with none launched it has been said already
        rest = ", ".join(f"{name[:60]} {us / share.total_us:.0%}" for name, us in share.foreign[:3])
        if policy is Library.REFUSE:
            raise dishonest(FOREIGN, f"{text}; the problem refuses library compute. The rest: {rest}")
        setting.note(
            "library.share",
            f"{text}. The rest: {rest}",
            share=round(share.value, 4),
            basis=basis,
            foreign=[[name[:120], round(us, 3)] for name, us in share.foreign[:MOST_NAMED]],
        )
    return text
