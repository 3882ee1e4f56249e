"""Pages say a basis, a degenerate problem and money in one way, and the docs' pictures are the product's own shapes."""

from __future__ import annotations

import re

import pytest

from tests.visual_language import FOLDER, PICTURES, ROOT, STATES

TEMPLATES = sorted((ROOT / "templates").rglob("*.html"))
BY_HAND = {
    r'class="basis basis-': "write {% basis value %}",
    r'\{% state "degenerate" "degenerate': "write {% degenerate problem %}",
    r"\$\{\{[^}]*\|floatformat": "write {{ amount|dollars }}: a rounded small sum is no $0.00",
    r"\{\{(?! *directions)[^}|]*\.speedup[^}|]*(\|floatformat[^}]*)?\}\}": "write {% measure row %}",
}


@pytest.mark.parametrize("pattern", BY_HAND)
def test_no_template_says_by_hand_what_has_a_tag(pattern):
    found = [
        f"{path.relative_to(ROOT)}:{number}: {BY_HAND[pattern]}"
        for path in TEMPLATES
        for number, line in enumerate(path.read_text().splitlines(), start=1)
        if re.search(pattern, line)
    ]
    assert not found, "\n".join(found)


@pytest.mark.parametrize("name", PICTURES)
def test_the_pictures_of_the_docs_are_those_of_the_product(name):
    kept = (FOLDER / f"{name}.svg").read_text()
    assert kept == PICTURES[name](), "run python -m tests.visual_language"
    assert f"img/{name}.svg" in (ROOT / "docs" / "visual-language.md").read_text()


def test_every_state_has_a_shape_of_its_own_or_that_of_its_like():
    from judge.templatetags.marks import shape_of

    unknown = shape_of("suspect")
    assert all(shape_of(name) != unknown for name, _ in STATES if name != "suspect")


def test_a_basis_is_said_by_its_word_and_nothing_without_times():
    from judge.templatetags.marks import basis
    from judge.values import Basis

    assert basis(Basis.MODELLED) == '<span class="basis basis-modelled">MODELLED</span>'
    assert basis("simulated", "why") == '<span class="basis basis-simulated" title="why">SIMULATED</span>'
    assert basis(Basis.MEASURED) == '<span class="basis basis-measured">measured</span>'
    assert basis(None) == "" and "&lt;" in basis("<b>")
