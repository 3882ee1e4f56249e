"""One written kernel with the host lines that launch it."""

from __future__ import annotations

from dataclasses import dataclass

from search.proposers.builtin.ir import Prim
from search.proposers.builtin.kernel import Arguments


@dataclass(frozen=True)
class Written:
    """`kernel` is module-level source; `launch` the lines of forward, without indentation."""

    kernel: str
    launch: list[str]


def indent(lines: list[str], steps: int = 1) -> list[str]:
    return [("    " * steps + line) if line else line for line in lines]


def function(name: str, parameters: list[str], body: list[str], *, note: str, configs: list[str] | None = None) -> str:
    """Source of a Triton kernel. `configs` are autotune entries; the key is every run-time number."""
    head = []
    if configs:
        keys = [repr(item) for item in parameters if ":" not in item and not item.endswith("_ptr")]
        head = ["@triton.autotune(", "    configs=["]
        head += [f"        {item}," for item in configs]
        head += ["    ],", f"    key=[{', '.join(keys)}],", ")"]
    return "\n".join(
        [*head, "@triton.jit", f"def {name}({', '.join(parameters)}):", f'    """{note}"""', *indent(body), ""]
    )


def allocate(stored: list[Prim], like: str) -> list[str]:
    """Host lines that create the outputs. `like` is the expression of a tensor on the right device."""
    lines = []
    for prim in stored:
        sizes = ", ".join(prim.sym)
        shape = f"({sizes},)" if len(prim.sym) == 1 else f"({sizes})"
        lines.append(f"t_{prim.name} = torch.empty({shape}, dtype=torch.{prim.dtype}, device={like}.device)")
    return lines


def call(name: str, grid: str, arguments: Arguments, extra: list[str], names: dict[str, str]) -> list[str]:
    """Host lines of a launch. `names` maps a primitive to the host expression of its contiguous tensor."""
    values = [names[prim] for prim in arguments.pointers]
    values += [f"t_{prim}" for prim in arguments.outputs]
    values += list(arguments.numbers)
    return [f"{name}[{grid}](", *indent([f"{item}," for item in [*values, *extra]]), ")"]


def big(count: str) -> str:
    """Whether offsets need 64 bits."""
    return f"({count}) >= 2**31"
