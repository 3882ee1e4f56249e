"""Texts of strangers cost time that grows with their length alone: no model, upload or error message hangs a process.

Processor time, not the clock, and a wide margin: four times the text may cost eight times as much. Quadratic work costs
sixteen times as much. What takes next to nothing at the larger size passes without a comparison.
"""

from __future__ import annotations

import gc
import random
import time
from collections.abc import Callable

import pytest
from pygments.lexers.python import PythonLexer

from adaexplore_site.core.text import escaped as storable
from adaexplore_site.core.text import fenced, one_line
from judge.bench.foreign.sources import LoadError, check_source, defined_kernels
from judge.sources.checks import ProblemRejected, check_candidate, check_problem, declared_cases
from judge.sources.highlighting import _LINEAR, runs_by_line, visible
from judge.values import canonical_hash
from judge.values.parsing import MOST_PARTS, parse_module
from memory.patterns.messages import cause_of, masked
from memory.patterns.table import recognised
from memory.rules.wording import claim_check, names_in, normal, wording, words_hash
from search.diffing.comparing import opcodes, word_marks
from search.engine.sketches import shingles
from search.proposers.builtin.proposer import patches
from search.proposers.exchange import apply_patches, fenced_blocks, parse_patches, parse_reply
from search.proposers.protocol import Task
from search.records.facts import cell_of

SIZE, LARGER = 5_000, 4
TRIES, MARGIN = 4, 8.0
NOTHING_S = 0.025  # of processor time at the larger size
REFUSALS = (ValueError, ProblemRejected, LoadError, SyntaxError, RecursionError, MemoryError)

MODULE = "import torch\n\n\nclass ModelNew(torch.nn.Module):\n    def forward(self, x):\n        return x\n"


PROBLEM = "class Model: pass\ndef get_inputs(): pass\ndef get_init_inputs(): pass\n"


def task(kind: str, base: str | None) -> Task:
    return Task(kind, "t", "class Model: ...", None, {}, (), seed=1, number=3, base=base)


def a_patch(old: str, new: str = "x") -> str:
    return f"PATCH 1: why\n<<<<<<< OLD\n{old}\n=======\n{new}\n>>>>>>> NEW\n"


def patched(text: str) -> None:
    """Old texts that nearly stand in the kernel, everywhere."""
    for old in (text, text[: len(text) // 2], text + "!", f"{text}\n "):
        try:
            apply_patches(text, parse_patches(a_patch(old)))
        except ValueError:
            pass


# Everything that reads a text which somebody else wrote, before a sandboxed child does.
READERS: dict[str, Callable[[str], object]] = {
    "a reply to a large step": lambda text: parse_reply(task("large", None), text),
    "a reply to a small step": lambda text: parse_reply(task("small", MODULE), text),
    "a reply in a fence": lambda text: parse_reply(task("large", None), f"```python\n{text}\n```\n{text}"),
    "fenced blocks": fenced_blocks,
    "patches": parse_patches,
    "patches of a kernel": patched,
    "storable": storable,
    "one line": one_line,
    "in a fence": fenced,
    "the cause of an error": cause_of,
    "a masked error": masked,
    "a known error": lambda text: recognised("crashed", cause_of(text)),
    "a rule": claim_check,
    "a rule beside an error": lambda text: claim_check("Use tl.where for a mask.", source=text, message=text),
    "wording": wording.__wrapped__,
    "normal wording": normal,
    "hash of a wording": words_hash,
    "an uploaded problem": lambda text: check_problem(text.encode(), max_bytes=1 << 20),
    "an uploaded kernel": check_candidate,
    "a candidate": lambda text: check_source(text, needs=("ModelNew",), max_bytes=1 << 20),
    "syntax": parse_module,
    "cases of a problem": declared_cases,
    "hash of a source": canonical_hash,
    "names in a source": names_in,
    "kernels in a source": defined_kernels,
    "pattern of a kernel": cell_of,
    "constants of a kernel": lambda text: next(patches(text, random.Random(1)), None),
    "shingles": shingles,
    "visible": visible,
    "words of two lines": lambda text: word_marks(text, text[1:]),
    "lines of two texts": lambda text: opcodes(text.split("\n"), text[1:].split("\n")),
}

# (before, repeated, behind): each of many pieces alone, and a few of them inside of what patterns look for.
PIECES = (
    *"a1 \t\n*~`=<>_-.,:;#'\"%{}[]()/\\$+@^",
    *(
        "a ",
        "a.",
        "a_",
        "1.",
        "1,",
        "1_",
        "0A",
        "a1",
        "A_",
        " \n",
        "\n\n",
        "* ",
        "~\n",
        "```\n",
        "''",
        "{a",
        "{a[",
        "{a}",
    ),
    *("{a:{b}}", "%(", "\\N{", "f'{a}'", "'''", '"""', "a: ", "/a", "./", "-1", "<n> ", "x1 ", " x ", "line ", "<a>"),
    *("name '", "NameError: ", "at 1:1:\n", "Traceback (most recent call last):\n", "PATCH 1\n", "=======\n"),
    *("<<<<<<< OLD\n", "import a\n", "match ", "BLOCK=64\n", "a=64;", "ignore the ", "all "),
)
FRAMES = (
    *(
        ("~~~", "`"),
        ("```", "`x"),
        ("PATCH 1 ", "x"),
        ("PATCH", "x"),
        ("<<<<<<< OLD\n", "x\n=======\nx\n>>>>>>> NEW\n"),
    ),
    *(
        ("x = f'", "'\n"),
        ('x = f"""', '"""\n'),
        ('x = f"""', ""),
        ("x = '%", "\n"),
        ("import ", "a\n"),
        ("from a", " import b\n"),
    ),
    *(("PATCH 1: a", "x"), ('"""t\nfamily: a', 'b"""\n' + PROBLEM)),
    *(('"""t\nfamily:', '\x01"""\n'), ("lines", "!x"), ("<", "!"), ("a1", ""), ("match", "\n"), ("NameError: ", "(")),
)
TEXTS = (
    *(("", piece, "!") for piece in PIECES),
    *((before, piece, behind) for before, behind in FRAMES for piece in (" ", "\n", "~", "{a}", "a.", "0A")),
)


def spent_s(read: Callable[[str], object], text: str) -> float:
    gc.disable()
    begun = time.thread_time()
    try:
        read(text)
    except REFUSALS:
        pass
    finally:
        gc.enable()
    return time.thread_time() - begun


def grows(read: Callable[[str], object], text: tuple[str, str, str]) -> bool:
    """Whether the larger text costs more than its share, in each of some tries."""
    before, piece, behind = text
    small, large = (before + piece * (size // len(piece)) + behind for size in (SIZE, SIZE * LARGER))
    for _ in range(TRIES):
        much = spent_s(read, large)
        if much < NOTHING_S or much < MARGIN * spent_s(read, small):
            return False
    return True


@pytest.mark.filterwarnings("ignore::SyntaxWarning", "ignore::DeprecationWarning")
@pytest.mark.parametrize("name", READERS)
def test_reading_takes_time_that_grows_with_the_text_alone(name: str) -> None:
    assert [text for text in TEXTS if grows(READERS[name], text)] == []


LEXED = (
    *(
        ("x = '%", "0", "'\n"),
        ("x = '", "%0", "'\n"),
        ("x = '''", "{a[", ""),
        ("x = '''", "{a[\n", "'''"),
        ("", " \n", ""),
    ),
    *(
        ("", "\n", "x"),
        ("x = '", "\\N{", "'\n"),
        ("match", " ", "\n"),
        ("x = ", "-", "\n"),
        ("", "$", ""),
        ("", "'", ""),
    ),
    *(
        ("x = f'", "{a}", "'\n"),
        ("x = f'{a=", " ", "'\n"),
        ("import a", " ", ""),
        ('"""', "\n", ""),
        ("", "match\n \n", ""),
    ),
    *(("x = f'", "{", ""), ("x = ", "1_", ""), ("", "lazy\n", ""), ("", "def\\\n", "")),
)


@pytest.mark.parametrize("text", LEXED)
def test_colouring_takes_time_that_grows_with_the_text_alone(text: tuple[str, str, str]) -> None:
    assert not grows(runs_by_line, text)


def test_the_linear_patterns_replace_ones_that_the_library_has() -> None:
    """With another version of Pygments the test above says whether its patterns are linear, this one which to drop."""
    said = [rule[0] for rules in PythonLexer.tokens.values() for rule in rules if isinstance(rule, tuple)]
    assert [slow for slow, _ in _LINEAR if not any(slow in text for text in said if isinstance(text, str))] == []


def test_the_measure_tells_quadratic_work_from_linear() -> None:
    assert grows(lambda text: [sum(map(ord, text)) for _ in range(len(text) // 100)], ("", "a", ""))
    assert not grows(lambda text: [sum(map(ord, text)) for _ in range(100)], ("", "a", ""))


def test_text_that_takes_too_long_to_parse_is_refused_with_its_line() -> None:
    many_fields = "x = 1\ny = f'" + "{a}" * 20_000 + "'\n"
    with pytest.raises(ProblemRejected, match="too many fields") as caught:
        check_candidate(MODULE + many_fields)
    assert caught.value.line == MODULE.count("\n") + 2
    with pytest.raises(ProblemRejected, match=f"more than {MOST_PARTS} parts"):
        check_problem(("import a" + ".a" * 20_000 + "\n").encode())
    assert parse_reply(task("large", None), many_fields).reason == "proposal.no_code"


@pytest.mark.parametrize(
    "text",
    [
        "x = f'" + "{a}" * 3000 + "'\n",
        'x = """' + "{a}" * 30_000 + '"""\n',
        "# it's a comment with f'\n" + "x = f'{a}'\n" * 4000,
        "x = a" + ".a" * 400 + "\n",
        "import a." + "b" * 5000 + "\n",
        "x = 'f' \"{}\" '''\\'''' f'' \"\\\n\"\n",
    ],
)
def test_long_but_honest_text_is_parsed(text: str) -> None:
    assert parse_module(text).body
