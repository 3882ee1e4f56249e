"""What row and element-wise kernels share: walking over tiles, launch grids, docstrings."""

from __future__ import annotations

from typing import Any

from search.proposers.builtin.fuse import Group, Layout
from search.proposers.builtin.plans import Plan


def power_of_two(size: int) -> int:
    return 1 << max(0, size - 1).bit_length()


def striding(grid: str, head: list[str], lines: list[str], tiles: str) -> list[str]:
    """One tile per program, or a grid of fixed size whose programs walk over the tiles."""
    if grid == "stride":
        return [
            f"for tile in range(tl.program_id(0), {tiles}, tl.num_programs(0)):",
            *("    " + x for x in head + lines),
        ]
    return ["tile = tl.program_id(0)", *head, *lines]


def launch_grid(text: str, constants: dict[str, Any] | None, plan: Plan) -> str:
    """The launch grid; names of tile sizes are replaced by their values, or read from the chosen configuration."""
    if constants is None:
        for key in ("BLOCK", "ROWS", "COLS"):
            text = text.replace(f", {key})", f', meta["{key}"])')
    else:
        for key, value in constants.items():
            text = text.replace(f", {key})", f", {value})")
    if plan.grid == "stride":
        text = f"_resident({text}, {plan.waves})"
    return f"lambda meta: ({text},)" if constants is None else f"({text},)"


def note_of(layout: Layout, group: Group) -> str:
    operators = dict.fromkeys(layout.program.prims[name].attrs.get("node", name) for name in group.members)
    return f"Fused: {', '.join(operators)}."
