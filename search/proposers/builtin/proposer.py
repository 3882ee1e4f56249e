"""The built-in proposer: a candidate for a task, written from the traced graph. Deterministic in the task's seed."""

from __future__ import annotations

import dataclasses
import hashlib
import random
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from judge.values import Gradients, canonical_hash
from judge.values.graph import OpGraph
from judge.values.parsing import parse_module
from memory.prompting.assignment import PromptRule
from search.proposers.builtin.candidate import Reference, write_forward
from search.proposers.builtin.lowering import lower
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
from search.proposers.builtin.program import Program, Unsupported
from search.proposers.protocol import Call, Reply, Task

# num_warps=4, num_stages=2, BLOCK_M=64, BLOCK = 1024, "BLOCK_N": 128, TILE_K: tl.constexpr = 32
CONSTANT = re.compile(
    r"""(?P<name>\b(?:num_warps|num_stages|(?:BLOCK|TILE|GROUP)\w*|B[MNK]))["']?"""
    r"""\s*(?::\s*tl\.constexpr\s*)?[=:]\s*(?P<value>\d+)\b(?!\s*[*/+-])"""
)
BOUNDS = {"num_warps": (1, 16), "num_stages": (1, 6)}


@dataclass(frozen=True)
class Patch:
    """The patched text and one line on what changed."""

    source: str
    summary: str


def patches(source: str, rng: random.Random) -> Iterator[Patch]:
    """Every one-constant change of `source` that still parses, in an order drawn from `rng`; none of broken text."""
    try:
        parse_module(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return  # no constant can repair it, and trying each takes long
    options = [(match, value) for match in CONSTANT.finditer(source) for value in _values(match)]
    rng.shuffle(options)
    for match, value in options:
        text = source[: match.start("value")] + str(value) + source[match.end("value") :]
        try:
            parse_module(text)
        except SyntaxError:
            continue
        line = source.count("\n", 0, match.start()) + 1
        yield Patch(text, f"{match['name']} {match['value']} → {value} (line {line})")


def _values(match: re.Match[str]) -> list[int]:
    name, now = match["name"], int(match["value"])
    if name == "num_stages":
        near = [now - 1, now + 1]
    elif now > 0 and now & (now - 1) == 0:
        near = [now // 2, now * 2]
    else:
        return []
    low, high = BOUNDS.get(name, (16 if name[0] == "B" else 1, 16384))
    return [value for value in near if low <= value <= high]


INSTALLED, MIXED = "installed", "mixed"
DIALECTS = (INSTALLED, MIXED)

Change = Callable[[str], str]


@dataclass(frozen=True)
class Habit:
    """One mistake.

    `rate` is how often it is made where the kernel gives occasion. `change` makes it and returns the text as it was
    where there is none. `causes` are the known errors (`Rule.pattern`) whose lesson warns of it. Any other rule does
    when its claim holds every word of one of `words`.
    """

    code: str
    rate: float
    change: Change
    words: tuple[tuple[str, ...], ...]
    causes: tuple[str, ...] = ()

    def named_by(self, lesson: PromptRule) -> bool:
        """Whether a rule warns of this mistake: by the error that it was learned from, else by its words."""
        if lesson.pattern in (self.code, *self.causes):
            return True
        claim = lesson.text.lower()
        return any(all(_holds(claim, word) for word in words) for words in self.words)


def spoken(source: str, seed: int, lessons: Iterable[PromptRule] = ()) -> tuple[str, tuple[str, ...]]:
    """`source` with the mistakes that this seed makes and no rule warns of, and their codes.

    Each mistake is drawn for by itself, and none takes the occasion of another: a rule takes away its own and no other.
    """
    warned = tuple(lessons)
    made = []
    for habit in HABITS:
        if not _is_made(habit, seed) or any(habit.named_by(lesson) for lesson in warned):
            continue
        changed = habit.change(source)
        if changed != source:
            source = changed
            made.append(habit.code)
    return source, tuple(made)


def _holds(claim: str, word: str) -> bool:
    """As a word of its own: "tl.max" is not in "tl.maximum"."""
    return re.search(rf"(?<!\w){re.escape(word)}(?!\w)", claim) is not None


def _is_made(habit: Habit, seed: int) -> bool:
    digest = hashlib.sha256(f"habit:{seed}:{habit.code}".encode()).digest()
    return int.from_bytes(digest[:8], "big") / 2**64 < habit.rate


def _swap(pattern: str, new: str, count: int = 0) -> Change:
    found = re.compile(pattern, re.MULTILINE)
    return lambda source: found.sub(new, source, count=count)


def _without_mask(source: str) -> str:
    """The first masked load of the kernel loses its mask."""
    return re.sub(r"tl\.load\((\w+ \+ \w+), mask=\w+, other=0(\.0)?", r"tl.load(\1", source, count=1)


def _with_meta(source: str) -> str:
    """A parameter of old examples, `meta`, that no launch fills."""
    return re.sub(r"^(def _kernel\w*\(.*?BIG: tl\.constexpr)", r"\1, meta", source, count=1, flags=re.MULTILINE)


def _skip(source: str) -> str:
    """`continue` in the loop of a resident grid or of a row walk."""
    loop = re.compile(r"^( +)(for (tile|start) in range\(.*\):)$", re.MULTILINE)
    return loop.sub(lambda at: f"{at[0]}\n{at[1]}    if {at[3]} < 0:\n{at[1]}        continue", source, count=1)


HABITS: tuple[Habit, ...] = (
    # names of other versions, of libdevice and of torch
    Habit(
        "math-tanh",
        0.35,
        _swap(r"(?<!def )\b_tanh\(", "tl.math.tanh("),
        (("tl.math.tanh",), ("triton.language.math.tanh",), ("tl.math", "tanh"), ("triton.language.math", "tanh")),
    ),
    Habit(
        "tl-libdevice",
        0.12,
        _swap(r"\btl\.exp\(", "tl.libdevice.exp("),
        (("tl.libdevice",), ("triton.language.libdevice",), ("triton.language", "attribute", "libdevice")),
    ),
    Habit(
        "tl-relu",
        0.25,
        _swap(r"tl\.where\((\w+) < 0\.0, 0\.0, \1\)", r"tl.relu(\1)"),
        (("tl.relu",), ("triton.language.relu",), ("triton.language", "relu")),
    ),
    Habit(
        "torch-in-kernel",
        0.08,
        _swap(r"(tl\.store\(\w+ \+ \w+, )(\w+),", r"\1torch.relu(\2),"),
        (("torch function", "kernel"), ("call torch", "kernel"), ("torch", "inside", "kernel")),
        ("not-jit",),
    ),
    # sizes and shapes
    Habit(
        "arange-not-power-of-two",
        0.12,
        _swap(r"(\bBLOCK=|\"BLOCK\": )\d+\b", r"\g<1>1000"),
        (("power of 2",), ("power of two",), ("powers of two",)),
        ("arange-power-of-two",),
    ),
    Habit(
        "arange-not-constexpr",
        0.08,
        _swap(r"tl\.arange\(0, (?:ROWS|BLOCK)\)", "tl.arange(0, tile + 1)", 1),
        (("arange", "constexpr"),),
        ("arange-constant",),
    ),
    Habit(
        "load-without-mask",
        0.12,
        _without_mask,
        (("mask", "load", "past the end"), ("mask", "load", "out of bounds"), ("out-of-bounds", "mask")),
        ("out-of-bounds",),
    ),
    # keywords and arguments
    Habit(
        "reduce-dim",
        0.15,
        _swap(r"(tl\.(?:sum|max|min)\(.*?), axis=1", r"\1, dim=1"),
        (("dim", "axis"), ("'dim'",)),
        ("keyword-unknown",),
    ),
    Habit(
        "store-other",
        0.08,
        _swap(r"(tl\.store\(.*, mask=\w+)\)$", r"\1, other=0)"),
        (("tl.store", "other"),),
        ("keyword-unknown",),
    ),
    Habit(
        "zeros-without-dtype",
        0.2,
        _swap(r"tl\.zeros\((\[[^\]]*\]), tl\.float32\)", r"tl.zeros(\1)"),
        (("tl.zeros", "dtype"),),
    ),
    Habit(
        "max-of-two-values",
        0.1,
        _swap(r"(?<= )(\w+) - (r\d+)$", r"tl.max(\1, 0.0)", 1),
        (("tl.max", "maximum"), ("tl.max", "two")),
    ),
    # control flow and launches
    Habit(
        "continue-in-kernel",
        0.25,
        _skip,
        (("continue", "kernel"), ("continue", "statement"), ("continue", "loop")),
        ("loop-exit",),
    ),
    Habit(
        "missing-argument",
        0.05,
        _with_meta,
        (("'meta'",),),
        ("launch-argument-missing",),
    ),
    Habit(
        "data-ptr",
        0.05,
        _swap(r"(_kernel\w*\[.*?\]\()(\w+),", r"\1\2.data_ptr(),", 1),
        (("data_ptr",), ("unsupported ptr type",)),
        ("not-a-pointer",),
    ),
    Habit(
        "launch-keyword-in-brackets",
        0.05,
        _swap(r"(_kernel\w*\[)(.*?)(,?\]\()", r"\1\2, num_warps=8](", 1),
        (("num_warps", "bracket"), ("keyword", "bracket")),
    ),
    Habit(
        "launch-without-grid",
        0.05,
        _swap(r"(_kernel\w*)\[(.*?),?\]\(", r"\1(", 1),
        (("launch", "without", "grid"), ("without a grid",)),
    ),
)
BY_CODE = {habit.code: habit for habit in HABITS}


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
        if task.gradients is not Gradients.NONE:
            return Reply(
                reason="proposal.unsupported_graph",
                message="The problem asks for gradients, and the built-in proposer writes no backward. Use a language "
                "model or write kernels manually for this problem.",
            )
        if task.graph is None:
            return Reply(
                reason="proposal.no_graph",
                message="The module could not be traced, so the built-in proposer has no graph to write kernels from. "
                "Use a language model or write kernels manually for this problem.",
            )
        try:
            reference = Reference(task.problem_source)
            program = lower(OpGraph.from_json(task.graph), reference.arguments)
            problem = Problem(reference, program, traits(program))
        except Unsupported as error:
            return Reply(reason="proposal.unsupported_graph", message=f"Not written by the built-in proposer: {error}.")
        return _first_new(task, problem)


def _first_new(task: Task, problem: Problem) -> Reply:
    shown = {canonical_hash(kernel.source) for kernel in task.context_kernels}
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
    """Structures in the order to try them, those of the context kernels last.

    Without context kernels the ranking is walked by the node's number, so that steps from the root seldom repeat each
    other; one time in four, and whenever there are context kernels, the order is drawn, better guesses with more weight
    (1 / rank). With context kernels, every second draw takes its sizes from the fastest of them.
    """
    seen = [
        (plan, item.speedup or 0.0) for item in task.context_kernels if (plan := read_plan(item.source)) is not None
    ]
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
