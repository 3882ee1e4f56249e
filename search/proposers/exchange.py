"""What a proposer is asked and what it answers: prompts from templates, replies read as data, patches applied."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from string import whitespace
from typing import Any

from django.template import Context, Engine

from adaexplore_site.core.text import fenced, one_line
from judge.values import Gradients, canonical_hash
from judge.values.parsing import parse_module
from search.proposers.protocol import ContextKernel, Reply, Task

FOLDER = Path(__file__).resolve().parent.parent.parent / "templates" / "prompts"

MESSAGE_CHARS = 4000
GRAPH_LINES = 80
RULE_CHARS = 1000


_GRADIENTS = {  # whose are asked for
    Gradients.NONE: "",
    Gradients.INPUTS: "every floating input",
    Gradients.PARAMETERS: "every parameter",
    Gradients.ALL: "every floating input and every parameter",
}


@dataclass(frozen=True)
class Prompt:
    """What is sent: `system` and `user` texts. `template` names the files and their contents, for the record."""

    system: str
    user: str
    template: str

    @property
    def text(self) -> str:
        """Both parts as one text, as recorded and as shown to a person."""
        return f"{self.system}\n\n{self.user}"

    def messages(self) -> list[dict[str, str]]:
        return [{"role": "system", "content": self.system}, {"role": "user", "content": self.user}]


def build_prompt(task: Task) -> Prompt:
    """The prompt of one step. Contains nothing but what `task` holds."""
    name = f"{task.kind}.txt"
    shown_last = bool(task.context_kernels) and task.context_kernels[-1].source == task.base
    user = _render(
        name,
        {
            "title": one_line(task.problem_title),
            "problem": fenced(task.problem_source, "python"),
            "gradients": _GRADIENTS[task.gradients],
            "operators": fenced(_operators(task.graph)) if task.graph else "",
            "device": device_lines(task.device),
            "exhibits": [_context_kernel(kernel) for kernel in task.context_kernels if kernel.source],
            "base": fenced(task.base, "python") if task.base and not shown_last else "",
            "notes": [one_line(note, 2000) for note in task.notes],
            "rules": fenced(rule_lines(task)) if task.rules else "",
        },
    )
    return Prompt(_render("system.txt", {}), user, f"{_named(name)} {_named('system.txt')}")


def build_repair(task: Task, problem: str) -> Prompt:
    """The one answer to patches that did not match; it follows the first prompt and its reply."""
    user = _render("repair.txt", {"problem": fenced(problem), "base": fenced(task.base or "", "python")})
    return Prompt("", user, f"{_named('repair.txt')} {_named('system.txt')}")


def rule_lines(task: Task) -> str:
    """Rules out of memory, one line each, whatever their text holds."""
    return "\n".join(f"- {one_line(rule.text, RULE_CHARS)}" for rule in task.rules)


def device_lines(device: Mapping[str, Any]) -> list[str]:
    """The plain facts of a device, one line each; nested ones are left out."""
    return [
        f"{one_line(str(key), 60)}: {one_line(str(value))}"
        for key, value in device.items()
        if isinstance(value, str | int | float) and value != ""
    ]


def verdict_line(kernel: ContextKernel) -> str:
    """The verdict in words; a speedup always with its basis."""
    if kernel.speedup is None:
        return one_line(kernel.verdict)
    basis = {"modelled": "by a time model, not measured", "reported": "reported elsewhere"}.get(
        kernel.basis, "measured"
    )
    evidence = f", {one_line(kernel.evidence)}" if kernel.evidence else ""
    return f"{one_line(kernel.verdict)}, {kernel.speedup:.3g} times as fast as eager PyTorch ({basis}{evidence})"


def _context_kernel(kernel: ContextKernel) -> dict[str, Any]:
    return {
        "number": kernel.number,
        "verdict": verdict_line(kernel),
        "source": fenced(kernel.source, "python"),
        "message": fenced(kernel.message, limit=MESSAGE_CHARS) if kernel.message else "",
    }


def _operators(graph: Mapping[str, Any]) -> str:
    """The op graph as lines `name = op(target) -> [shape] dtype`."""
    lines = []
    for node in graph.get("nodes", ()):
        out = node.get("out") or {}
        result = f" -> {list(out['shape'])} {out['dtype']}" if out else ""
        target = f"({node['target']})" if node.get("target") else ""
        lines.append(one_line(f"{node['name']} = {node['op']}{target}{result}"))
    if len(lines) > GRAPH_LINES:
        lines[GRAPH_LINES:] = [f"and {len(lines) - GRAPH_LINES} more"]
    return "\n".join(lines)


@cache
def _text(name: str) -> str:
    return (FOLDER / name).read_text(encoding="utf-8")


def _named(name: str) -> str:
    return f"{name}@{hashlib.sha256(_text(name).encode()).hexdigest()[:12]}"


def _render(name: str, values: dict[str, Any]) -> str:
    template = Engine(autoescape=False).from_string(_text(name))
    return template.render(Context(values, autoescape=False)).strip() + "\n"


MAX_PATCHES = 64

# Lines of strangers: possessive patterns, which retry nothing, on the beginning of a line only.
_OPEN = re.compile(r"<{7} ?(?:OLD|SEARCH)\s*+$")
_MIDDLE = re.compile(r"={7}\s*+$")
_CLOSE = re.compile(r">{7} ?(?:NEW|REPLACE)\s*+$")
_HEAD = re.compile(r"\W*+PATCH\s*+#?\s*+\d++\s*+[:.)–-]?", re.IGNORECASE)
MOST_PLACES = 10  # named of an old text that is not there once


@dataclass(frozen=True)
class Patch:
    """Replace `old` by `new` (lines joined by \\n, no line end at the end); `number` is its place in the reply."""

    number: int
    reason: str
    old: str
    new: str


class PatchMismatch(ValueError):
    """At least one old text does not stand in the kernel exactly once; the message names each."""


def has_patches(text: str) -> bool:
    """True when some line opens a patch."""
    return any(_OPEN.match(line) for line in text.split("\n"))


def parse_patches(text: str) -> list[Patch]:
    """The patches in order. Raises ValueError for an unfinished, empty or endless list, or an empty old text."""
    patches: list[Patch] = []
    reason = ""
    part: list[str] | None = None
    old: list[str] = []
    for line in text.split("\n"):
        if part is None:
            head = _HEAD.match(line)
            reason = line[head.end() :].lstrip().rstrip(f"*{whitespace}") if head else reason
            if _OPEN.match(line):
                old = part = []
        elif part is old and _MIDDLE.match(line):
            part = []
        elif part is not old and _CLOSE.match(line):
            patches.append(_patch(len(patches) + 1, reason, old, part))
            part, reason = None, ""
        elif _OPEN.match(line):
            raise ValueError(f"Patch {len(patches) + 1} is not closed before the next one begins.")
        else:
            part.append(line)
    if part is not None:
        raise ValueError(f"Patch {len(patches) + 1} is never closed: the reply was cut off or is malformed.")
    return patches


def _patch(number: int, reason: str, old: list[str], new: list[str]) -> Patch:
    if number > MAX_PATCHES:
        raise ValueError(f"More than {MAX_PATCHES} patches: send the whole module instead.")
    if not "".join(old).strip():
        raise ValueError(f"Patch {number} has no old text to look for.")
    return Patch(number, reason, "\n".join(old), "\n".join(new))


def apply_patches(source: str, patches: list[Patch]) -> str:
    """`source` after all patches, each applied to the result of the one before. Raises PatchMismatch: none applied."""
    text = source.replace("\r\n", "\n")
    problems = []
    for patch in patches:
        found = _apply(text, patch)
        if isinstance(found, int):
            problems.append(f"patch {patch.number}: its old text stands in the kernel {_times(found)}, not once")
        else:
            text = found
    if problems:
        raise PatchMismatch("No patch was applied: " + "; ".join(problems) + ".")
    return text


def _apply(text: str, patch: Patch) -> str | int:
    """The patched text; else how often the old text was found by the strictest reading that found any."""
    count = len(_places(text, patch.old))
    if count:
        return text.replace(patch.old, patch.new, 1) if count == 1 else count
    for old, new in ((patch.old, patch.new), (_trim(patch.old), _trim(patch.new))):
        places = _line_places(text, old)
        if places:
            return _splice(text, places[0], old, new) if len(places) == 1 else len(places)
    return 0


def _places(text: str, part: str) -> list[int]:
    """Where `part` stands, overlapping places included (str.count would call two of them one); at most MOST_PLACES."""
    places: list[int] = []
    at = text.find(part)
    while at >= 0 and len(places) < MOST_PLACES:
        places.append(at)
        at = text.find(part, at + 1)
    return places


def _line_places(text: str, old: str) -> list[int]:
    """First lines of the places where the lines of `old` stand, trailing blanks ignored; at most MOST_PLACES."""
    lines, wanted = ("".join(f"\n{line.rstrip()}" for line in each.split("\n")) + "\n" for each in (text, old))
    return [lines.count("\n", 0, at) for at in _places(lines, wanted)]


def _splice(text: str, first: int, old: str, new: str) -> str:
    lines = text.split("\n")
    lines[first : first + old.count("\n") + 1] = new.split("\n")
    return "\n".join(lines)


def _trim(text: str) -> str:
    """Without the blank lines at both ends."""
    lines = text.split("\n")
    filled = [number for number, line in enumerate(lines) if line.strip()]
    return "\n".join(lines[filled[0] : filled[-1] + 1]) if filled else ""


def _times(count: int) -> str:
    if count == 0:
        return "nowhere"
    return f"{count} times" if count < MOST_PLACES else f"at least {MOST_PLACES} times"


MAX_REPLY_BYTES = 512 * 1024


# Models send what they like: each pattern takes time that grows with the text alone (possessive, nothing is retried).
_FENCE = re.compile(r" {0,3}(?P<run>`{3,}+|~{3,}+)(?P<info>[^`]*+)$")
_MODEL = re.compile(r"^class\s+ModelNew\b", re.MULTILINE)
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0e-\x1f\x7f]")


class BadReply(ValueError):
    """The text holds no usable answer; `reason` is a "proposal.*" code, the message says what was expected."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


def parse_reply(task: Task, text: str) -> Reply:
    """The source in `text`, or the reason why there is none. Never raises; `calls` is left to the caller.

    A large step answers with one fenced block (or nothing but a module); a small step with patches of `task.base` or,
    just as well, with a whole module.
    """
    try:
        source, summary = _read(task, text)
    except BadReply as error:
        return Reply(reason=error.reason, message=str(error))
    if task.base is not None and canonical_hash(source) == canonical_hash(task.base):
        return Reply(reason="proposal.unchanged", message="The reply leaves the kernel as it is; nothing to judge.")
    return Reply(source=source, summary=summary)


def _read(task: Task, text: str) -> tuple[str, str]:
    text = _checked(text)
    blocks, prose, unclosed = fenced_blocks(text)
    modules = [block for block in blocks if _MODEL.search(block) and not has_patches(block)]
    if has_patches(text):
        if task.base is None:
            raise BadReply("proposal.no_code", "The reply patches a kernel, but this step asks for a whole module.")
        if modules:
            raise BadReply("proposal.several", "The reply holds patches and a whole module: send one or the other.")
        return _patched(task.base, text)
    if unclosed:
        raise BadReply("proposal.unclosed", "The code block is never closed: the reply was cut off or is malformed.")
    if len(blocks) > 1:
        raise BadReply("proposal.several", f"The reply holds {len(blocks)} code blocks; exactly one is expected.")
    if not blocks:
        return _bare_module(text), ""
    if not blocks[0].strip():
        raise BadReply("proposal.no_code", "The code block is empty.")
    if task.kind == "small" and not modules:
        raise BadReply("proposal.no_patch", "The reply holds neither patches nor a whole module with class ModelNew.")
    return blocks[0], _summary(prose)


def _checked(text: str) -> str:
    """Uniform line ends; refuses what is empty, too large, binary or not UTF-8."""
    try:
        size = len(text.encode())
    except UnicodeEncodeError as error:
        raise BadReply(
            "proposal.binary", "The reply is not text: it holds half a character (lone surrogate)."
        ) from error
    if size > MAX_REPLY_BYTES:
        raise BadReply(
            "proposal.too_large",
            f"The reply has {size} bytes; at most {MAX_REPLY_BYTES} ({MAX_REPLY_BYTES >> 10} KiB).",
        )
    found = _CONTROL.search(text)
    if found:
        raise BadReply("proposal.binary", f"The reply is not text: it holds the control character {found[0]!a}.")
    if not text.strip():
        raise BadReply("proposal.no_code", "The reply is empty.")
    return text.replace("\r\n", "\n").replace("\r", "\n").removeprefix("\ufeff")


def fenced_blocks(text: str) -> tuple[list[str], str, bool]:
    """Contents of the closed fenced blocks, the text around them, and whether a last block is left open.

    A block closes with at least as many of the characters that opened it (CommonMark 4.5).
    """
    blocks: list[str] = []
    prose: list[str] = []
    inside: list[str] | None = None
    opened = ""
    for line in text.split("\n"):
        fence = _FENCE.match(line)
        if inside is None:
            if fence:
                inside, opened = [], fence["run"]
            else:
                prose.append(line)
        elif fence and not fence["info"].strip() and fence["run"].startswith(opened):
            blocks.append("\n".join(inside) + "\n")
            inside = None
        else:
            inside.append(line)
    return blocks, "\n".join(prose), inside is not None


def _bare_module(text: str) -> str:
    """A person may paste just the file; a model's prose is no module."""
    try:
        parse_module(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        text = ""
    if not _MODEL.search(text):
        raise BadReply("proposal.no_code", "The reply holds no fenced code block with the module.")
    return text if text.endswith("\n") else text + "\n"


def _patched(base: str, text: str) -> tuple[str, str]:
    try:
        patches = parse_patches(text)
    except ValueError as error:
        raise BadReply("proposal.bad_patch", str(error)) from error
    try:
        source = apply_patches(base, patches)
    except PatchMismatch as error:
        raise BadReply("proposal.patch_mismatch", str(error)) from error
    return source, one_line("; ".join(patch.reason for patch in patches if patch.reason))


def _summary(prose: str) -> str:
    lines = [line.strip(" #*") for line in prose.split("\n") if line.strip(" #*")]
    marked = [line for line in lines if line.lower().startswith("summary:")]
    return one_line((marked or lines or [""])[0].removeprefix("Summary:").removeprefix("summary:"))
