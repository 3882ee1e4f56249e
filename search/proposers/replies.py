"""From the text of a reply to a source: one fenced module, or patches of the kernel at hand. Pure; trusts nothing."""

from __future__ import annotations

import re

from adaexplore_site.core.text import escaped as storable
from adaexplore_site.core.text import one_line
from judge.values import canonical_hash
from judge.values.parsing import parse_module
from search.proposers.patches import PatchMismatch, apply_patches, has_patches, parse_patches
from search.proposers.protocol import Reply, Task

MAX_REPLY_BYTES = 512 * 1024

__all__ = ["MAX_REPLY_BYTES", "BadReply", "fenced_blocks", "one_line", "parse_reply", "storable"]

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
