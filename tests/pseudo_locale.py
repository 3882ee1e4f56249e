"""Texts of a page that no translation reaches: `python -m tests.pseudo_locale [PAGE...]` prints them.

In the pseudo-locale every message that goes through gettext is shown as ⟦Ñódé %(number)d⟧. What a page of
`tests/page_list.py` shows without the brackets was never handed to gettext, unless it is a name, a number with its
unit, code or text that people wrote: those stand in an element of `UNTRANSLATED` or under translate="no".

PAGE is a part of a name in the list; without one all pages are walked. `--count` prints counts only, as JSON;
`--keep` writes them into `tests/site/untranslated.json`, where they may only fall.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import re
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

from django.utils import translation
from django.utils.translation import trans_real as _trans_real

trans_real: Any = _trans_real  # the stubs leave out what a test has to replace
KNOWN = Path(__file__).parent / "site" / "untranslated.json"
OPEN, CLOSE = "⟦", "⟧"
ACCENTED = str.maketrans("aeiounAEIOUN", "àéîöûñÀÉÎÖÛÑ")
# What a message holds beside words: placeholders, tags and entities.
KEPT = re.compile(r"(%\(\w+\)[-+ #0]*\d*(?:\.\d+)?[a-zA-Z]|%[a-zA-Z%]|\{[^{}]*\}|<[^>]*>|&#?\w+;)")
ATTRIBUTES = ("aria-label", "title", "placeholder", "alt")
UNTRANSLATED = {"bdi", "code", "pre", "kbd", "samp", "time", "script", "style"}
VOID = {
    "area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track", "wbr",
}  # fmt: skip
# The same in every language: units, names of products, formats and protocols.
EVERYWHERE = re.compile(
    r"(?<![^\W\d_])(?:[nµμm]?s|min|h|d|[kKMGT]i?B|B|[kMG]?Hz|m?W|°C|USD|px|[kMGT]?FLOPS?|[kMGT]?FLOP/s|GB/s|TB/s|x|n|"
    r"AdaExplore|PyTorch|Triton|Python|NVIDIA|CUDA|NVML|GPUs?|CPUs?|API|REST|OpenAPI|JSONL?|CSV|HTML|SVG|PNG|SHA-256|"
    r"URL|UTC|HTTPS?|https?|Ctrl|eager|torch\.compile)(?![^\W\d_])"
)
WORD = re.compile(r"[^\W\d_]+")


def pseudo(message: str) -> str:
    """`message` in the pseudo-locale; placeholders and tags stay as they are."""
    parts = KEPT.split(message)
    return OPEN + "".join(part if place % 2 else part.translate(ACCENTED) for place, part in enumerate(parts)) + CLOSE


class PseudoTranslation(_trans_real.DjangoTranslation):
    """Every message in the pseudo-locale, whether a catalog knows it or not."""

    def gettext(self, message: str) -> str:
        return pseudo(message.rpartition(_trans_real.CONTEXT_SEPARATOR)[2])

    def ngettext(self, msgid1: str, msgid2: str, n: int) -> str:
        return self.gettext(msgid1 if n == 1 else msgid2)


@contextmanager
def pseudo_locale() -> Iterator[None]:
    """English is the pseudo-locale inside."""
    with translation.override("en"):
        known = trans_real._translations["en"]
        trans_real._translations["en"] = trans_real._active.value = PseudoTranslation("en")
        try:
            yield
        finally:
            trans_real._translations["en"] = known


@contextmanager
def pseudo_reader() -> Iterator[None]:
    """The pseudo-locale is a language beside English, and the one of who asks."""
    trans_real._translations["eo"] = PseudoTranslation("eo")
    try:
        with translation.override("eo"):
            yield
    finally:
        del trans_real._translations["eo"]


class Texts(HTMLParser):
    """The untranslated texts of a page, in its order: `(place, text)`, the place being `text` or an attribute."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[str, str]] = []
        self.open: list[tuple[str, bool, int]] = []  # tag, whether it is exempt, depth of brackets at its start
        self.depth = 0
        self.names: set[str] = set()  # what stands in exempt elements

    def named(self, place: str, text: str) -> bool:
        """Whether it is a title that only names what the page is about."""
        rest = " ".join(part for part in text.split(" · ") if part not in self.names)
        return place == "title of the page" and not words(rest)

    def exempt(self) -> bool:
        return bool(self.open) and self.open[-1][1]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attrs}
        own = values.get("translate")
        exempt = own == "no" or (
            own != "yes" and (self.exempt() or tag in UNTRANSLATED or "mono" in values.get("class", "").split())
        )
        if not exempt and not self.depth:
            names = [*ATTRIBUTES, *(["value"] if tag == "input" and values.get("type") in {"submit", "button"} else [])]
            self.found += [(name, values[name].strip()) for name in names if untranslated(values.get(name, ""))]
        if tag not in VOID:
            self.open.append((tag, exempt, self.depth))

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        self.handle_endtag(tag)

    def handle_endtag(self, tag: str) -> None:
        if any(tag == name for name, _, _ in self.open):
            while self.open:
                name, _, depth = self.open.pop()
                if name == tag:
                    self.depth = min(self.depth, depth)  # a cut text may have lost its closing bracket
                    return

    def handle_data(self, data: str) -> None:
        if self.exempt():
            self.names.add(" ".join(data.split()))
            return
        if self.open and self.open[-1][0] == "textarea":  # what was typed, as the value of an input
            return
        in_title = bool(self.open) and self.open[-1][0] == "title"
        for piece in re.split(f"([{OPEN}{CLOSE}])", data):
            if piece in (OPEN, CLOSE):
                self.depth = max(self.depth + (1 if piece == OPEN else -1), 0)
            elif not self.depth and words(piece):
                self.found.append(("title of the page" if in_title else "text", " ".join(piece.split())))


def words(text: str) -> tuple[str, ...]:
    """The words that are left when what is the same in every language is taken away."""
    return tuple(WORD.findall(EVERYWHERE.sub("", text)))


def untranslated(value: str) -> bool:
    """Whether an attribute has words outside of brackets."""
    depth = 0
    for piece in re.split(f"([{OPEN}{CLOSE}])", value):
        if piece in (OPEN, CLOSE):
            depth = max(depth + (1 if piece == OPEN else -1), 0)
        elif not depth and words(piece):
            return True
    return False


def texts_of(html: str) -> list[tuple[str, str]]:
    """The untranslated texts of a page, each once; numbers and units do not tell texts apart."""
    parser = Texts()
    parser.feed(html)
    parser.close()
    parser.found = [one for one in parser.found if not parser.named(*one)]
    return list({(place, words(text)): (place, text) for place, text in parser.found}.values())


def pages(wanted: Callable[[str], bool] = lambda name: True) -> Iterator[tuple[str, list[tuple[str, str]]]]:
    """Each page of the list as it is first shown, with its untranslated texts. Needs an empty database; leaves rows."""
    from django.core.cache import cache
    from django.test import Client

    from tests import page_list, page_rows
    from tests.pages import client_of

    people = {"ada": client_of("admin", "ada"), "vera": client_of("viewer", "vera"), "nobody": Client()}
    late = [*page_list.FULL, *page_list.JUDGED, *page_list.REVIEWED, *page_list.IMPORTED]
    names: dict[str, Any] = {}
    stages = [(page_list.EMPTY, dict), (page_list.YOUNG, page_rows.young), (late, page_rows.full)]
    for sights, rows in stages:
        chosen = [sight for sight in sights if wanted(sight.name)]
        names |= rows()
        cache.clear()  # of what was before these rows
        for sight in chosen:
            with pseudo_locale():
                answer = people[sight.who].get(sight.path.format_map(names), follow=True)
            yield sight.name, texts_of(answer.content.decode())


def counts(found: Iterable[tuple[str, list[tuple[str, str]]]]) -> dict[str, int]:
    """How many untranslated texts each page has; pages without any are left out."""
    return {name: len(texts) for name, texts in found if texts}


def known() -> dict[str, int]:
    """The most that each page may have."""
    allowed: dict[str, int] = json.loads(KNOWN.read_text())
    return allowed


def main() -> None:
    """Print what is asked for, with a database of its own."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("page", nargs="*")
    parser.add_argument("--count", action="store_true")
    parser.add_argument("--keep", action="store_true")
    options = parser.parse_args()
    os.environ["DJANGO_SETTINGS_MODULE"] = "tests.settings"
    with tempfile.TemporaryDirectory(prefix="adaexplore-pseudo-") as folder:
        os.environ["ADAEXPLORE_DATA"] = folder
        import django

        django.setup()
        from django.db import transaction
        from django.test.utils import setup_databases, setup_test_environment, teardown_databases

        logging.disable(logging.CRITICAL)
        setup_test_environment()
        made = setup_databases(verbosity=0, interactive=False)
        try:
            with transaction.atomic():
                found = dict(pages(lambda name: not options.page or any(part in name for part in options.page)))
        finally:
            teardown_databases(made, verbosity=0)
    if options.keep:
        KNOWN.write_text(json.dumps(counts(found.items()), indent=0, sort_keys=True) + "\n")
    elif options.count:
        sys.stdout.write(json.dumps(counts(found.items()), indent=0, sort_keys=True) + "\n")
    else:
        for name, texts in found.items():
            sys.stdout.write(f"{name}: {len(texts)}\n" + "".join(f"    {place}: {text}\n" for place, text in texts))


if __name__ == "__main__":
    main()
