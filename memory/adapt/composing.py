"""Composes new problems of known ones: three seeds and three operators of the catalogue. Deterministic. Pure.

After the task synthesis of AdaExplore's Adapt stage (arXiv 2604.16625): mutate and recombine, without a model.
"""

from __future__ import annotations

import ast
import hashlib
import json
import math
import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

RANKS = (2, 3, 4)
_DRAWN = {"randn", "rand", "randint", "ones", "zeros", "empty"}


@dataclass(frozen=True)
class Seed:
    """A known problem as a composer sees it."""

    slug: str
    source: str


def names_called(source: str) -> list[str]:
    """Names of everything the text calls, without their rooms, in order and once. Empty for what does not parse."""
    found = [_name(node.func) for node in _calls(source)]
    return list(dict.fromkeys(name for name in found if name))


def rank_of(source: str, default: int = 2) -> int:
    """The rank of the first tensor that get_inputs draws, within RANKS."""
    for node in _calls(source):
        if _name(node.func) in _DRAWN:
            given = node.args[0].elts if node.args and isinstance(node.args[0], ast.Tuple | ast.List) else node.args
            return min(max(len(given), RANKS[0]), RANKS[-1])
    return default


def _calls(source: str) -> list[ast.Call]:
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []
    return [node for node in ast.walk(tree) if isinstance(node, ast.Call)]


def _name(node: ast.expr) -> str:
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


Size = tuple[int, int]  # of one axis: in the small case, and in that of a GPU
Sizes = tuple[Size, ...]


class DoesNotFit(ValueError):
    """The operator does not take a tensor of these sizes."""


@dataclass(frozen=True)
class Form:
    """One way to use an operator on a tensor of `rank`. `out` says where each size of the result comes from."""

    rank: int
    arguments: Mapping[str, Any]
    out: tuple[Mapping[str, Any], ...]
    multiples: tuple[int, ...]
    nonnegative: bool = False  # so is its result
    keeps_positive: bool = False  # it changes no positive number
    centred: bool = False  # rows of its result have mean 0
    sums_to_one: bool = False
    overflows: bool = False  # on large inputs
    bounded: bool = False  # its result stays near zero on large inputs

    def sizes(self, given: Sizes, new: Size) -> Sizes:
        """Sizes of the result. Raises DoesNotFit."""
        if len(given) != self.rank:
            raise DoesNotFit("another rank")
        for sizes, multiple in zip(given, self.multiples, strict=True):
            if any(size % multiple for size in sizes):
                raise DoesNotFit("a size is no multiple of what it must be")
        return tuple(_size(rule, given, new) for rule in self.out)


def _size(rule: Mapping[str, Any], given: Sizes, new: Size) -> Size:
    if "new" in rule:
        return new
    if "size" in rule:
        return (rule["size"], rule["size"])
    small, large = given[rule["axis"]]
    return (
        small * rule["mul"] // rule["div"] + rule["add"],
        large * rule["mul"] // rule["div"] + rule["add"],
    )


@dataclass(frozen=True)
class Operator:
    """One layer or function of torch. `kind` is layer, unary, binary or reduction."""

    name: str
    category: str
    kind: str
    forms: tuple[Form, ...]

    @property
    def plain(self) -> str:
        """ "nn.LayerNorm" -> "layernorm": how texts of problems are matched."""
        return plain_name(self.name)

    def at(self, rank: int) -> list[Form]:
        """How it may be used on a tensor of this rank."""
        return [form for form in self.forms if form.rank == rank]


@dataclass(frozen=True)
class Catalogue:
    """The usable operators of one version of torch, in order of their names."""

    torch: str
    operators: tuple[Operator, ...]

    def named(self, names: Iterable[str]) -> list[Operator]:
        """Those that a text calls by these names, in catalogue order."""
        wanted = {plain_name(name) for name in names}
        return [operator for operator in self.operators if operator.plain in wanted]

    def at(self, rank: int) -> list[Operator]:
        """Those that take a tensor of this rank."""
        return [operator for operator in self.operators if operator.at(rank)]


def plain_name(name: str) -> str:
    """Without room, underscores and case; a functional `layer_norm` is the layer LayerNorm."""
    return name.rpartition(".")[2].replace("_", "").lower()


def catalogue_of(document: Mapping[str, Any]) -> Catalogue:
    """The judge's document (judge.libraries.operators) as a value; what cannot be used is left out."""
    operators = [
        Operator(
            name=row["name"],
            category=row["category"],
            kind=row["kind"],
            forms=tuple(_form(form) for form in row["forms"]),
        )
        for row in document["operators"]
        if row["forms"]
    ]
    return Catalogue(document["torch"], tuple(sorted(operators, key=lambda one: one.name)))


def _form(row: Mapping[str, Any]) -> Form:
    return Form(**{**row, "out": tuple(row["out"]), "multiples": tuple(row["multiples"])})


HEAVY = ("matmul", "conv", "norm", "reduction", "pool")  # at least one of them: else a kernel has little to do
MOST_SMALL = 24_000  # elements of any tensor in the small case: the interpreter runs element by element
MOST_LARGE = 1 << 26
LEAST_LARGE = 1 << 14  # of the result on a GPU
LEAST_SIZE = 2
NEW_SMALL = (16, 24, 32, 48)
NEW_LARGE = {"matmul": (512, 768, 1024, 2048), "conv": (32, 64, 128)}


@dataclass(frozen=True)
class Link:
    """One operator at its place: what goes in and out. `other` is where a second operand comes from: the number of an
    earlier result (0 is the first input), -1 a second input."""

    operator: Operator
    form: Form
    given: Sizes
    out: Sizes
    other: int | None = None


class Poor(ValueError):
    """This chain makes no good problem."""


def linked(operators: Sequence[Operator], sizes: Sizes, rng: random.Random) -> tuple[Link, ...]:
    """The operators in this order on an input of these sizes. Raises Poor, or DoesNotFit."""
    links: list[Link] = []
    for operator in operators:
        given = links[-1].out if links else sizes
        forms = operator.at(len(given))
        if not forms:
            raise DoesNotFit("no form for this rank")
        form = rng.choice(forms)
        new = (rng.choice(NEW_SMALL), rng.choice(NEW_LARGE.get(operator.category, NEW_LARGE["conv"])))
        out = form.sizes(given, new)
        _check_sizes(out)
        link = Link(operator, form, given, out, _other(operator, links, given, sizes, rng))
        _check_pair(links, link)
        links.append(link)
    if math.prod(large for _, large in links[-1].out) < LEAST_LARGE:
        raise Poor("too little is left at the end")
    return tuple(links)


def ordered(operators: Sequence[Operator], rng: random.Random) -> list[Operator]:
    """Some order with a reduction towards the end: what follows it has little left to do."""
    mixed = list(operators)
    rng.shuffle(mixed)
    rest = [one for one in mixed if one.kind != "reduction"]
    last = [one for one in mixed if one.kind == "reduction"]
    if last and len(rest) > 2 and rng.random() < 0.4:
        return [*rest[:-1], *last, rest[-1]]
    return [*rest, *last]


def _other(operator: Operator, links: list[Link], given: Sizes, sizes: Sizes, rng: random.Random) -> int | None:
    if operator.kind != "binary":
        return None
    shapes = [sizes, *(link.out for link in links)]
    earlier = [number for number, shape in enumerate(shapes[:-1]) if shape == given]
    if earlier and rng.random() < 0.6:
        return rng.choice(earlier)
    if any(link.other == -1 for link in links):
        raise Poor("a second input is enough")
    return -1


def _check_sizes(out: Sizes) -> None:
    if any(size < LEAST_SIZE for sizes in out for size in sizes):
        raise Poor("a size falls below two")
    if math.prod(small for small, _ in out) > MOST_SMALL or math.prod(large for _, large in out) > MOST_LARGE:
        raise Poor("a tensor grows too large")


def _check_pair(links: list[Link], link: Link) -> None:
    """Neighbours that undo each other, or leave nothing to compute; large inputs where they end in infinity."""
    form = link.form
    if form.overflows and not (links and links[-1].form.bounded):
        raise Poor("it grows beyond all bounds")
    if not links:
        return
    before = links[-1].form
    if links[-1].operator.category == link.operator.category:
        raise Poor("two of one kind in a row")
    if before.nonnegative and form.keeps_positive:
        raise Poor("it would change nothing")
    settled = before.centred or before.sums_to_one
    if settled and link.operator.category in ("reduction", "norm"):
        raise Poor("its answer is known before")
    if links[-1].operator.category == "norm" and link.operator.category in ("reduction", "pool"):
        raise Poor("a normalised tensor is averaged away")


def check_whole(operators: Sequence[Operator]) -> None:
    """Raises Poor for a set of operators that no order helps."""
    categories = [operator.category for operator in operators]
    if not any(category in HEAVY for category in categories):
        raise Poor("nothing but elements")
    for category, most in (("reduction", 1), ("matmul", 1), ("norm", 1), ("layout", 1), ("conv", 2), ("pool", 1)):
        if categories.count(category) > most:
            raise Poor(f"more {category} than is good")
    if len(set(categories)) < min(3, len(categories)):
        raise Poor("too few kinds")


AXES = {2: ("ROWS", "COLUMNS"), 3: ("BATCH", "CHANNELS", "LENGTH"), 4: ("BATCH", "CHANNELS", "HEIGHT", "WIDTH")}
FAMILIES = {
    "matmul": "matmul",
    "conv": "convolution",
    "norm": "normalisation",
    "reduction": "reductions",
    "pool": "pooling",
}
SMALL, LARGE = 0, 1


MODULE = '''"""{title}.

Family: {family}
Composed of parts of {parts}.
"""

import torch
from torch import nn

{constants}


class Model(nn.Module):
{methods}


def get_inputs():
    return [{inputs}]


def get_init_inputs():
    return [{arguments}]


def get_cases():
    return {{
        "interpreter": {small},
        "gpu": {large},
    }}
'''


class _Constants:
    """Names of sizes: one constant for each size of the input, and one more for each other that is needed."""

    def __init__(self, sizes: Sizes) -> None:
        self.known: dict[str, Size] = dict(zip(AXES[len(sizes)], sizes, strict=True))

    def name(self, size: Size) -> str:
        """The constant with this size in both cases."""
        name = next((name for name, known in self.known.items() if known == size), f"SIZE_{len(self.known)}")
        self.known[name] = size
        return name

    def shape(self, sizes: Sizes) -> str:
        return ", ".join(self.name(size) for size in sizes)

    def case(self, which: int) -> str:
        return "{" + ", ".join(f'"{name}": {size[which]}' for name, size in self.known.items()) + "}"


def module_text(links: Sequence[Link], sizes: Sizes, made_of: Sequence[str]) -> tuple[str, str]:
    """(title, source). `made_of` are slugs of the problems whose parts were used."""
    constants = _Constants(sizes)
    setup, steps, used, extra = _body(links, constants)
    inputs = [constants.shape(sizes)] + ([extra] if extra else [])
    names = [link.operator.name.rpartition(".")[2] for link in links]
    title = f"{', '.join(names[:-1])} and {names[-1]}"[:110]
    source = MODULE.format(
        title=title,
        family=next(
            (FAMILIES[one.operator.category] for one in links if one.operator.category in FAMILIES), "synthetic"
        ),
        parts=", ".join(made_of),
        constants="\n".join(f"{name} = {size[SMALL]}" for name, size in constants.known.items()),
        methods=_methods(setup, steps, used, second=bool(extra)),
        inputs=", ".join(f"torch.randn({shape})" for shape in inputs),
        arguments=", ".join(used),
        small=constants.case(SMALL),
        large=constants.case(LARGE),
    )
    return title, source


def _body(links: Sequence[Link], constants: _Constants) -> tuple[list[str], list[str], list[str], str]:
    """(lines of __init__, lines of forward, constants that go through __init__, shape of a second input or "")."""
    setup: list[str] = []
    steps: list[str] = []
    used: list[str] = []
    kept = {link.other for link in links if link.other is not None}
    if 0 in kept:
        steps.append("x0 = x")
    extra = ""
    for number, link in enumerate(links, start=1):
        if link.other == -1:
            extra = constants.shape(link.given)
        if link.operator.kind == "layer":
            given = _arguments(link, constants, used)
            setup.append(f"self.step{number} = {link.operator.name}({given})")
            steps.append(f"x = self.step{number}(x)")
        else:
            steps.append(f"x = {link.operator.name}(x{_rest(link)})")
        if number in kept:
            steps.append(f"x{number} = x")
    return setup, steps, used, extra


def _arguments(link: Link, constants: _Constants, used: list[str]) -> str:
    def text(choice: Any) -> str:
        if not isinstance(choice, dict):
            return repr(choice)
        new = next((place for place, rule in enumerate(link.form.out) if "new" in rule), 0)
        name = constants.name(link.given[choice["axis"]] if "axis" in choice else link.out[new])
        if name not in used:
            used.append(name)
        return name.lower()

    return ", ".join(f"{name}={text(choice)}" for name, choice in link.form.arguments.items())


def _rest(link: Link) -> str:
    if link.other is not None:
        return ", other" if link.other == -1 else f", x{link.other}"
    return "".join(f", {name}={value!r}" for name, value in link.form.arguments.items())


def _methods(setup: list[str], steps: list[str], used: list[str], *, second: bool) -> str:
    given = "".join(f", {name.lower()}: int" for name in used)
    other = ", other: torch.Tensor" if second else ""
    lines = [f"    def __init__(self{given}) -> None:", "        super().__init__()"] if setup else []
    lines += [f"        {line}" for line in setup] + [""] * bool(setup)
    lines += [f"    def forward(self, x: torch.Tensor{other}) -> torch.Tensor:"]
    return "\n".join([*lines, *(f"        {step}" for step in steps), "        return x"])


SEEDS = 3
OPERATORS = 3
MOST_BORROWED = 2
LENGTHS = (3, 4, 4, 5, 5, 6)  # operations of one module
TRIES = 400
# How often each kind is drawn: what costs time on a GPU more often than what moves numbers about.
WEIGHTS = {"matmul": 4, "conv": 3, "norm": 4, "activation": 5, "pool": 2, "reduction": 4, "elementwise": 5, "layout": 1}
_SMALL = {2: ((16, 24, 32), (48, 64, 96)), 3: ((2, 4), (8, 12, 16), (32, 48)), 4: ((2,), (8, 12), (12, 16), (12, 16))}
_LARGE = {
    2: ((4096, 8192), (1024, 2048, 4096)),
    3: ((32, 64), (128, 256), (1024, 2048)),
    4: ((16, 32, 64), (64, 128), (56, 64), (56, 64)),
}


@dataclass(frozen=True)
class Drawn:
    """What a new problem is to be made of."""

    seeds: tuple[Seed, ...]
    operators: tuple[Operator, ...]
    rank: int


@dataclass(frozen=True)
class Composed:
    """A new problem. `recipe` says what it was made of, as JSON."""

    title: str
    source: str
    recipe: dict[str, Any]


class NothingComposed(ValueError):
    """No chain was found. The message says what to give."""


def rng_of(seed: int, place: int) -> random.Random:
    """The only source of chance of one task."""
    return random.Random(f"adapt:{seed}:{place}")


def drawn(*, seed: int, place: int, catalogue: Catalogue, seeds: Sequence[Seed]) -> Drawn:
    """Three seed problems, a rank, and three operators of different kinds. Raises NothingComposed.

    The rank is that of a seed's input in half of the tasks, else any for which there are operators of three kinds.
    """
    if len(seeds) < SEEDS:
        raise NothingComposed(f"Composing needs {SEEDS} problems to start from; there are {len(seeds)}.")
    rng = rng_of(seed, place)
    chosen = tuple(rng.sample(sorted(seeds, key=lambda one: one.slug), SEEDS))
    ranks = [rank for rank in RANKS if len({one.category for one in catalogue.at(rank)}) >= OPERATORS]
    if not ranks:
        raise NothingComposed("The catalogue has operators of too few kinds.")
    rank = rank_of(rng.choice(chosen).source)
    if rank not in ranks or rng.random() < 0.5:
        rank = rng.choice(ranks)
    return Drawn(chosen, tuple(_operators(catalogue.at(rank), rng)), rank)


def _operators(usable: Sequence[Operator], rng: random.Random) -> list[Operator]:
    kinds = {kind: [one for one in usable if one.category == kind] for kind in WEIGHTS}
    left = [kind for kind in WEIGHTS if kinds[kind]]
    found = []
    for _ in range(min(OPERATORS, len(left))):
        kind = rng.choices(left, [WEIGHTS[one] for one in left])[0]
        left.remove(kind)
        found.append(rng.choice(kinds[kind]))
    return found


def compose(*, seed: int, place: int, catalogue: Catalogue, seeds: Sequence[Seed]) -> Composed:
    """The problem number `place` of an adapt run. Raises NothingComposed."""
    given = drawn(seed=seed, place=place, catalogue=catalogue, seeds=seeds)
    rng = random.Random(f"adapt:{seed}:{place}:chain")
    named = {one.slug: catalogue.named(names_called(one.source)) for one in given.seeds}
    wanted = rng.choice(LENGTHS)
    for attempt in range(TRIES):
        length = max(OPERATORS, wanted - 3 * attempt // TRIES)  # rather a shorter one than none
        operators = _chosen(given, named, rng, length, catalogue, fresh=attempt > TRIES // 4)
        sizes = _sizes(given.rank, rng)
        try:
            check_whole(operators)
            links = linked(ordered(operators, rng), sizes, rng)
        except (Poor, DoesNotFit):
            continue
        return _composed(given, links, sizes)
    raise NothingComposed("No chain of these operators makes a problem.")


def _chosen(
    given: Drawn,
    named: dict[str, list[Operator]],
    rng: random.Random,
    length: int,
    catalogue: Catalogue,
    *,
    fresh: bool,
) -> list[Operator]:
    """The drawn operators, some borrowed from the seeds, and others; after many tries other ones are drawn."""
    own = _operators(catalogue.at(given.rank), rng) if fresh else list(given.operators)
    borrowed = [one for seed in given.seeds for one in named[seed.slug] if one.at(given.rank)]
    more = rng.sample(borrowed, len(borrowed))[:MOST_BORROWED] + _operators(catalogue.at(given.rank), rng)
    for one in more:
        if len(own) < length and one not in own:
            own.append(one)
    return own


def _sizes(rank: int, rng: random.Random) -> Sizes:
    pairs = zip(_SMALL[rank], _LARGE[rank], strict=True)
    return tuple((rng.choice(small), rng.choice(large)) for small, large in pairs)


def _composed(given: Drawn, links: tuple[Link, ...], sizes: Sizes) -> Composed:
    slugs = [one.slug for one in given.seeds]
    title, source = module_text(links, sizes, slugs)
    recipe = {
        "seeds": slugs,
        "operators": [one.name for one in given.operators],
        "chain": [link.operator.name for link in links],
    }
    return Composed(title, source, recipe)


SIZE_FROM = 8  # whole numbers from here on are taken for sizes; kernel widths, axes and counts of groups are smaller


def graph_signature(graph: Mapping[str, Any] | None) -> str:
    """Sixteen hexadecimal digits of an op graph (OpGraph.to_json), equal for equal wiring; "" without a graph."""
    nodes = (graph or {}).get("nodes") or ()
    if not any(str(node["op"]).startswith("aten.") for node in nodes):
        return ""
    places = {node["name"]: place for place, node in enumerate(nodes)}
    told = [[node["op"], _plain(node["args"], places), _plain(node["kwargs"], places)] for node in nodes]
    return hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()[:16]


def _plain(value: Any, places: Mapping[str, int]) -> Any:
    if isinstance(value, Mapping):
        if set(value) == {"node"}:
            return {"node": places.get(value["node"], -1)}
        return {key: _plain(one, places) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(one, places) for one in value]
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) >= SIZE_FROM:
        return "size"
    return value
