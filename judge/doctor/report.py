"""What the doctor found, as lines and JSON, with the warnings of a device."""

from __future__ import annotations

import dataclasses
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from judge.bench.sandboxing.minimum import gaps, required_layers
from judge.doctor.host import Host, read_host
from judge.doctor.layers import Layer, advice_for

WIDTH, COLUMNS = 16, 116


@dataclass(frozen=True)
class Fact:
    """One thing worth knowing. `state` is ok, note (works, but read it) or bad (something will not work)."""

    name: str
    value: str
    state: str = "ok"
    advice: str = ""

    def __post_init__(self) -> None:
        if self.state not in {"ok", "note", "bad"}:
            raise ValueError(f"unknown state {self.state!r}")
        if self.state == "bad" and not self.advice:
            raise ValueError("a bad fact says what to do about it")


@dataclass(frozen=True)
class DeviceReport:
    """One device; `fault` is set when its bench does not start, and little else is known then, or when a known kernel
    does not pass."""

    device: str
    fault: str = ""
    layers: tuple[Layer, ...] = ()
    facts: tuple[Fact, ...] = ()

    @property
    def healthy(self) -> bool:
        return not self.fault and not any(layer.fails for layer in self.layers)


@dataclass(frozen=True)
class Report:
    """The whole machine. `required` are the layers that JUDGE_MIN_SANDBOX demands."""

    required: tuple[str, ...]
    machine: tuple[Fact, ...]
    devices: tuple[DeviceReport, ...]

    @property
    def healthy(self) -> bool:
        return all(device.healthy for device in self.devices)

    def to_json(self) -> dict[str, Any]:
        """Plain JSON types, with `healthy` on top and `fails` with every layer."""
        plain = dataclasses.asdict(self)
        for row, device in zip(plain["devices"], self.devices, strict=True):
            row["healthy"] = device.healthy
            for entry, layer in zip(row["layers"], device.layers, strict=True):
                entry["fails"] = layer.fails
        return {"healthy": self.healthy, **plain}

    def lines(self) -> Iterator[str]:
        """For a terminal."""
        yield "machine"
        for fact in self.machine:
            yield from _fact_lines(fact)
        for device in self.devices:
            yield ""
            yield f"device {device.device}"
            if device.fault:
                yield f"  FAULT        {device.fault}"
            for layer in device.layers:
                yield from _layer_lines(layer)
            for fact in device.facts:
                yield from _fact_lines(fact)
        yield ""
        yield self.conclusion()

    def conclusion(self) -> str:
        """One sentence: may this machine judge uploaded code?"""
        if not self.devices:
            return "No device was examined."
        wanted = ", ".join(self.required) or "nothing"
        if self.healthy:
            return f"Every layer that JUDGE_MIN_SANDBOX asks for ({wanted}) is active and held."
        wrong = []
        for device in self.devices:
            names = [f"{layer.name} ({layer.state})" for layer in device.layers if layer.fails]
            if names or device.fault:
                wrong.append(f"{device.device}: {', '.join(names) or 'it cannot judge'}")
        return f"Not fit to judge uploaded code with JUDGE_MIN_SANDBOX asking for {wanted}. {'; '.join(wrong)}."


def _fact_lines(fact: Fact) -> Iterator[str]:
    mark = {"ok": "", "note": "note", "bad": "BAD"}[fact.state]
    yield f"  {mark:12} {fact.name:{WIDTH}} {fact.value}".rstrip()
    if fact.advice:
        yield from _below(f"-> {fact.advice}")


def _layer_lines(layer: Layer) -> Iterator[str]:
    needed = " (required)" if layer.required else ""
    yield f"  {layer.state:12} {layer.name:{WIDTH}} {layer.protects}{needed}"
    for words, rows in _grouped(layer):
        yield from _below(f"{words}: {rows}")
    for sentence in layer.advice:
        yield from _below(f"-> {sentence}")


def _below(text: str) -> Iterator[str]:
    """`text` in the last column, over as many lines as it takes."""
    margin = " " * (WIDTH + 16)
    yield from textwrap.wrap(
        text, COLUMNS, initial_indent=margin, subsequent_indent=f"{margin}  ", break_on_hyphens=False
    )


def _grouped(layer: Layer) -> Iterator[tuple[str, str]]:
    titles = {"through": "GOT THROUGH", "held": "stopped", "moot": "refused here to every process"}
    for result, title in titles.items():
        rows = [
            f"{tried.words}{f' ({tried.how})' if tried.how else ''}" for tried in layer.tried if tried.result == result
        ]
        if rows:
            yield title, "; ".join(rows)


OPEN = {
    "landlock": "uploaded code is bounded, but could read and write files of this account",
    "seccomp": "uploaded code could reach other processes and kernel interfaces of this account",
}


def warnings(minimum: str, *, missing: tuple[str, ...] | None = None, host: Host | None = None) -> list[str]:
    """Lines about strong layers that are missing; `minimum` is JUDGE_MIN_SANDBOX. Empty on a machine that has both."""
    missing = gaps() if missing is None else missing
    if not missing:
        return []
    host = host or read_host()
    refused = required_layers(minimum)
    lines = []
    for layer in missing:
        what = "nothing uploaded will run, as JUDGE_MIN_SANDBOX asks for it" if layer in refused else OPEN[layer]
        lines.append(f"WARNING: no {layer} on this machine: {what}.")
        lines += [f"  -> {sentence}" for sentence in advice_for(layer, host, cuda=False)]
    if not refused.issuperset(missing):
        lines.append(f"  Upload only what you trust, or insist with JUDGE_MIN_SANDBOX=auto,{','.join(missing)}.")
    return [*lines, "  manage.py judge_doctor tries every layer and explains."]
