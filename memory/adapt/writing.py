"""Writes a chain of operators as a KernelBench-style module: Model, get_inputs, get_init_inputs, get_cases. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from memory.adapt.catalogue import Size, Sizes
from memory.adapt.chain import Link

AXES = {2: ("ROWS", "COLUMNS"), 3: ("BATCH", "CHANNELS", "LENGTH"), 4: ("BATCH", "CHANNELS", "HEIGHT", "WIDTH")}
FAMILIES = {
    "matmul": "matmul",
    "conv": "convolution",
    "norm": "normalisation",
    "reduction": "reductions",
    "pool": "pooling",
}
SMALL, LARGE = 0, 1


class _Constants:
    """Names of sizes: one constant for each size of the input, and one more for each other that is needed."""

    def __init__(self, sizes: Sizes) -> None:
        self.known: dict[str, Size] = dict(zip(AXES[len(sizes)], sizes, strict=True))

    def name(self, size: Size) -> str:
        """The constant with this size in both cases."""
        for name, known in self.known.items():
            if known == size:
                return name
        name = f"SIZE_{len(self.known)}"
        self.known[name] = size
        return name

    def shape(self, sizes: Sizes) -> str:
        return ", ".join(self.name(size) for size in sizes)


def module_text(links: Sequence[Link], sizes: Sizes, made_of: Sequence[str]) -> tuple[str, str]:
    """(title, source). `made_of` are slugs of the problems whose parts were used."""
    constants = _Constants(sizes)
    setup, steps, used, extra = _body(links, constants)
    inputs = [constants.shape(sizes)] + ([extra] if extra else [])
    title = _title(links)
    family = next((FAMILIES[one.operator.category] for one in links if one.operator.category in FAMILIES), "synthetic")
    blocks = [
        f'"""{title}.\n\nFamily: {family}\nComposed of parts of {", ".join(made_of)}.\n"""',
        "import torch\nfrom torch import nn",
        "\n".join(f"{name} = {size[SMALL]}" for name, size in constants.known.items()),
        "\n\n".join(["class Model(nn.Module):", *_init(setup, used), _forward(steps, bool(extra))]),
        "def get_inputs():\n    return [" + ", ".join(f"torch.randn({shape})" for shape in inputs) + "]",
        f"def get_init_inputs():\n    return [{', '.join(used)}]",
        "def get_cases():\n    return {\n"
        f'        "interpreter": {_case(constants, SMALL)},\n'
        f'        "gpu": {_case(constants, LARGE)},\n    }}',
    ]
    head = "\n\n".join(blocks[:3])
    head = head.replace("):\n\n    def", "):\n    def")
    source = "\n\n\n".join([head, *blocks[3:]]) + "\n"
    return title, source.replace("class Model(nn.Module):\n\n", "class Model(nn.Module):\n")


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
        size = link.given[choice["axis"]] if "axis" in choice else _new(link)
        name = constants.name(size)
        if name not in used:
            used.append(name)
        return name.lower()

    return ", ".join(f"{name}={text(choice)}" for name, choice in link.form.arguments.items())


def _new(link: Link) -> Size:
    place = next(place for place, rule in enumerate(link.form.out) if "new" in rule)
    return link.out[place]


def _rest(link: Link) -> str:
    if link.other is not None:
        return ", other" if link.other == -1 else f", x{link.other}"
    return "".join(f", {name}={value!r}" for name, value in link.form.arguments.items())


def _init(setup: list[str], used: list[str]) -> list[str]:
    if not setup:
        return []
    given = "".join(f", {name.lower()}: int" for name in used)
    lines = [f"    def __init__(self{given}) -> None:", "        super().__init__()"]
    return ["\n".join([*lines, *(f"        {line}" for line in setup)])]


def _forward(steps: list[str], second: bool) -> str:
    other = ", other: torch.Tensor" if second else ""
    lines = [f"    def forward(self, x: torch.Tensor{other}) -> torch.Tensor:"]
    return "\n".join([*lines, *(f"        {step}" for step in steps), "        return x"])


def _case(constants: _Constants, which: int) -> str:
    return "{" + ", ".join(f'"{name}": {size[which]}' for name, size in constants.known.items()) + "}"


def _title(links: Sequence[Link]) -> str:
    names = [link.operator.name.rpartition(".")[2] for link in links]
    return f"{', '.join(names[:-1])} and {names[-1]}"[:110]
