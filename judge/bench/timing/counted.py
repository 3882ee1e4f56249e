"""Can what an interpreted candidate counted be true? It counts in its own process, so the counts are claims.

Fewer bytes than any way of computing must move are no counts; a kernel that only the interpreter ever saw is hidden
from the compiler. Both end the evaluation.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from judge.bench.admission.graph import base_name, bytes_of, tensors_in, trace_report, users_of
from judge.bench.exchange.claims import Forwarded
from judge.bench.exchange.nested import cloned
from judge.bench.exchange.rows import CountedRow
from judge.bench.foreign.whereabouts import FORWARD
from judge.bench.interpreting.traffic import TrafficReport
from judge.bench.judging.asking import Question
from judge.bench.judging.completion import Ended
from judge.bench.judging.reference import Reference
from judge.values import Verdict
from judge.values.graph import OpGraph

MARGIN = 0.9  # of the certain bytes: sectors are counted whole, so an honest count is rather above
# Operators that need every element of what they are given; others may look at a part of it.
WHOLE = frozenset(
    {
        "abs", "add", "addmm", "amax", "amin", "argmax", "baddbmm", "bmm", "clamp", "cumsum", "div", "elu", "exp",
        "gelu", "hardswish", "layer_norm", "leaky_relu", "linear", "log", "log_softmax", "logsumexp", "matmul", "mean",
        "mish", "mm", "mul", "neg", "pow", "relu", "rsqrt", "sigmoid", "silu", "softmax", "softplus", "sqrt", "square",
        "sub", "sum", "tanh", "var",
    }
)  # fmt: skip


def check_counts(reference: Reference, asked: Question, report: TrafficReport) -> None:
    """Raise Ended (`physics.bytes`) when fewer bytes were counted than the problem must move."""
    if asked.expected.aliases:
        return  # an output may be an input's memory: nothing is certain
    counted = sum(row.unique_bytes for row in report.kernels)
    forward = reference.gradients.forward_part(asked.expected.same)  # a gradient may be a view, or nothing but zeros
    outputs = sum(bytes_of(tensor) for tensor in forward)
    whole = outputs + sum(bytes_of(tensor) for tensor in (*tensors_in(asked.inputs), *asked.state.values()))
    if counted >= MARGIN * whole:
        return
    with reference.whereabouts.inside(FORWARD):
        graph = trace_report(reference.model, cloned(reference.gradients.arguments(asked.inputs))).graph
    certain = outputs + (_read_whole(graph) if graph is not None else 0)
    if counted < MARGIN * certain:
        raise Ended(
            Verdict.SUSPECT,
            "timing",
            "physics.bytes",
            f"{counted:,} bytes were counted in the candidate's launches, but the problem's inputs and outputs alone "
            f"are {certain:,}",
        )


def check_seen(answer: Forwarded, stage: str) -> None:
    """Raise Ended (`physics.operators`) when torch's operators ran where nobody counts them."""
    if answer.unseen:
        names = ", ".join(answer.unseen[:8])
        raise Ended(
            Verdict.SUSPECT,
            stage,
            "physics.operators",
            f"{names} ran where operators are not counted, so that the time cannot be modelled; call torch in the "
            "thread that calls forward, and leave its modes on",
        )


def check_compiled(
    compiled: Mapping[str, str], launched: Mapping[str, str], counted: Iterable[CountedRow], why: str
) -> None:
    """Raise Ended unless every kernel that was interpreted has been compiled for the target, from the same code.

    `compiled` and `launched`: codes of kernels with their names; `counted`: the launches claimed, which name kernels
    too; `why`: what kept the compilation from being complete, "" where nothing did.
    """
    hidden = {name for code, name in launched.items() if code not in compiled}
    hidden |= {row.name for row in counted if row.origin == "triton"} - set(compiled.values())
    if not hidden:
        return
    names = ", ".join(sorted(name[:80] for name in hidden)[:8])
    if why:
        raise Ended(
            Verdict.UNSUPPORTED,
            "compile",
            "compile.incomplete",
            f"{names} was interpreted, but not compiled for the target, so that nobody knows whether it can be: {why}",
        )
    raise Ended(
        Verdict.SUSPECT,
        "compile",
        "compile.hidden",
        f"{names} was interpreted, but where kernels are compiled for the target it is not launched, or not with the "
        "same text and constants; launch the same kernels everywhere",
    )


def _read_whole(graph: OpGraph) -> int:
    """Bytes of inputs and parameters that every operator on them needs whole."""
    users = {name: {base_name(user) for user in found} for name, found in users_of(graph).items()}
    return sum(
        bytes_of(node.out)
        for node in graph.nodes
        if node.op in {"input", "parameter", "buffer"}
        and node.out is not None
        and users[node.name]
        and users[node.name] <= WHOLE
    )
