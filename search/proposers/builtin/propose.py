"""`BuiltinProposer`: a candidate for a task, written from the traced graph. Deterministic in `task.seed`."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Iterator
from dataclasses import dataclass

from judge.values import canonical_hash
from judge.values.graph import OpGraph
from search.proposers.builtin.foreign import patches
from search.proposers.builtin.habits import INSTALLED, MIXED, spoken
from search.proposers.builtin.host import write_forward
from search.proposers.builtin.ir import Program, Unsupported
from search.proposers.builtin.lower import lower
from search.proposers.builtin.module import Reference
from search.proposers.builtin.plans import (
    STRUCTURE,
    Plan,
    Traits,
    neighbours,
    read_plan,
    relevant,
    shaken,
    structures,
    traits,
)
from search.proposers.protocol import Call, Reply, Task


@dataclass(frozen=True)
class Problem:
    """A task's problem, lowered once."""

    reference: Reference
    program: Program
    traits: Traits

    def source(self, plan: Plan) -> str:
        """The candidate under a plan. Raises Unsupported when the plan leaves nothing to write."""
        body = write_forward(self.program, plan, shown=self.reference.returned)
        calls = ", ".join(body.torch_calls)
        notes = (f"Left to torch: {calls}.",) if calls else ()
        return self.reference.candidate(body, plan, notes)


class BuiltinProposer:
    """Large step: another structure. Small step: one size or hint of the base kernel's plan changed.

    Option `dialect`: "installed" writes for the installed Triton; "mixed" makes mistakes of language models, too, but
    for those that a rule in the task warns of.
    """

    name = "builtin"

    def propose(self, task: Task) -> Reply:
        """A candidate not shown before, or the reason why there is none."""
        if task.graph is None:
            return Reply(
                reason="proposal.no_graph",
                message="The module could not be traced, so the built-in proposer has no graph to write kernels from. "
                "Use a language model or write kernels by hand for this problem.",
            )
        try:
            reference = Reference(task.problem_source)
            program = lower(OpGraph.from_json(task.graph), reference.arguments)
            problem = Problem(reference, program, traits(program))
        except Unsupported as error:
            return Reply(reason="proposal.unsupported_graph", message=f"Not written by the built-in proposer: {error}.")
        return _first_new(task, problem)


def _first_new(task: Task, problem: Problem) -> Reply:
    shown = {canonical_hash(exhibit.source) for exhibit in task.exhibits}
    if task.base:
        shown.add(canonical_hash(task.base))
    rng = random.Random(task.seed)
    if task.kind == "small" and task.base and read_plan(task.base) is None:
        for patch in patches(task.base, rng):
            if canonical_hash(patch.source) not in shown:
                return _reply(patch.source, f"small step on a foreign kernel: {patch.summary}")
    why = "every plan has been shown already"
    for plan, summary in _plans(task, problem, rng):
        try:
            source = problem.source(plan)
        except Unsupported as error:
            why = str(error)
            continue
        left = [line for line in source.splitlines()[1:3] if line.startswith("# Left to torch")]
        source, made = _said(source, task)
        if canonical_hash(source) not in shown:
            words = [*(line[2:].rstrip(".").lower() for line in left), *(f"with {code}" for code in made)]
            return _reply(source, "; ".join([summary, *words]))
    return Reply(reason="proposal.exhausted", message=f"The built-in proposer has nothing new to try: {why}.")


def _said(source: str, task: Task) -> tuple[str, tuple[str, ...]]:
    """The kernel in the dialect that was asked for; the names of mistakes in it. Rules keep away what they warn of."""
    if task.options.get("dialect", INSTALLED) != MIXED:
        return source, ()
    return spoken(source, task.seed, task.rules)


def _reply(source: str, summary: str) -> Reply:
    return Reply(source=source, summary=summary, calls=(Call(reply=source, model="builtin"),))


def _plans(task: Task, problem: Problem, rng: random.Random) -> Iterator[tuple[Plan, str]]:
    """Plans in the order to try them, each with one line on what it is."""
    found = problem.traits
    base = read_plan(task.base) if task.kind == "small" and task.base else None
    if base is not None:
        for plan in neighbours(found, base, rng):
            yield plan, f"small step: {_difference(base, plan)}"
    ordered = _ordered(structures(found), task, rng)
    for plan in ordered:
        yield plan, f"structure: {describe(plan, found)}"
    for plan in ordered:
        for _ in range(4):
            yield (other := shaken(found, plan, rng)), f"structure with other sizes: {describe(other, found)}"


def _ordered(plans: list[Plan], task: Task, rng: random.Random) -> list[Plan]:
    """Structures in the order to try them, those the exhibits show last.

    Without exhibits the ranking is walked by the node's number, so that steps from the root seldom repeat each other;
    one time in four, and whenever there are exhibits, the order is drawn, better guesses with more weight (1 / rank).
    With exhibits, every second draw takes its sizes from the fastest of them.
    """
    seen = [(plan, item.speedup or 0.0) for item in task.exhibits if (plan := read_plan(item.source)) is not None]
    if not seen and (task.number <= 1 or rng.random() < 0.75):
        start = max(0, task.number - 1) % len(plans)
        return plans[start:] + plans[:start]
    known = {_structure(plan) for plan, _ in seen}
    drawn = _drawn([plan for plan in plans if _structure(plan) not in known], rng)
    if seen and rng.random() < 0.5:
        best = max(seen, key=lambda item: item[1])[0]
        drawn = [dataclasses.replace(best, **{name: getattr(plan, name) for name in STRUCTURE}) for plan in drawn]
    return [*drawn, *_drawn([plan for plan in plans if _structure(plan) in known], rng)]


def _drawn(plans: list[Plan], rng: random.Random) -> list[Plan]:
    keyed = [(rng.random() ** (rank + 1.0), plan) for rank, plan in enumerate(plans)]
    return [plan for _, plan in sorted(keyed, key=lambda item: -item[0])]


def _structure(plan: Plan) -> tuple[object, ...]:
    return tuple(getattr(plan, name) for name in STRUCTURE)


def _difference(before: Plan, after: Plan) -> str:
    changed = [f.name for f in dataclasses.fields(Plan) if getattr(before, f.name) != getattr(after, f.name)]
    return ", ".join(f"{name} {getattr(before, name) or 'none'} → {getattr(after, name) or 'none'}" for name in changed)


FUSION_WORDS = {"full": "fused as far as possible", "reduce": "split at reductions", "node": "one kernel per operator"}


def describe(plan: Plan, found: Traits) -> str:
    """The structural fields that matter here, in words."""
    kept = relevant(found, plan)
    if kept["attention"] and plan.attention == "flash" and found.flashed is not None:
        found = found.flashed
    words = []
    if kept["fusion"]:
        words.append(FUSION_WORDS[plan.fusion])
    elif found.point or found.reduction:
        words.append("one fused kernel")
    if found.matmul:
        words.append("torch matmul, fused tail" if plan.matmul == "torch" else f"tl.dot {plan.precision}, fused tail")
    if kept["bias"] and plan.bias == "torch":
        words.append("bias in the product")
    if kept["attention"]:
        words.append(f"online softmax {plan.precision}" if plan.attention == "flash" else "attention in parts")
    if found.reduction:
        words.append("rows in registers" if plan.reduce == "once" else "rows in blocks")
    if kept["layout"]:
        words.append("tiles of rows and columns" if plan.layout == "rows" else "flat ranges")
    if kept["grid"] and plan.grid == "stride":
        words.append("resident grid")
    if kept["tune"] and plan.tune == "auto":
        words.append("autotuned")
    if plan.split_k > 1 and plan.matmul == "dot":
        words.append(f"split-K {plan.split_k}")
    return ", ".join(words)
