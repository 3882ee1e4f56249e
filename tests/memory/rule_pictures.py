"""Rules in every state, for pictures of their pages."""

from __future__ import annotations

from memory.prompting.scopes import Scope
from memory.rules.files import rules_import
from memory.rules.models import Rule
from tests.memory import decisions as acts
from tests.memory.decisions import rule_create
from tests.memory.rule_rows import card, failures, person, rule

FILE = b"""You cannot have an `else:` at line 223 of the module source (SyntaxError: invalid syntax).||79.0
You cannot access triton.language.math.tanh.||36.0
You cannot index a Triton tensor with an int32[] tensor index inside a Triton kernel during compilation.||36.0
"""
ERROR = "Traceback (most recent call last):\nCompilationError: at 12:8: module 'triton.language' has no attribute 'any'"


def gallery() -> dict[str, int]:
    """Numbers of rules worth looking at."""
    rita, rolf = person("rita"), person("rolf", "operator")
    seen = [row for name in ("relu", "gelu", "softmax") for row in failures(3, problem=name, message=ERROR)]
    full = int(
        rule_create(
            text="Do not call tl.any or tl.all: reduce an integer mask with tl.max or tl.min instead.",
            scope=Scope(), user=rita, failures=seen, pattern="triton.no_attribute",
        ).object_id
    )  # fmt: skip
    row = Rule.objects.get(pk=full)
    acts.rule_approve(**card(row, rita))
    acts.rule_scope(scope=Scope(arch="sm_90", triton=">=3.4,<3.8"), **card(row, rita))
    text = "Do not call tl.any: reduce an integer mask with tl.max instead, cast to tl.int32 first."
    acts.rule_edit(text=text, why="tl.all is fine in newer versions", **card(row, rolf))
    rule("You cannot call tl.any in a kernel.")
    rule("Always call tl.any: reduce an integer mask with tl.max instead.")
    rules_import(data=FILE, name="adaexplore_rules_v1_200.txt", user=rita)
    for text, state in (
        ("Do not cast the accumulator of tl.dot to float16.", "approved"),
        ("Try harder to be fast everywhere.", "rejected"),
    ):
        row = rule(text, seen=2)
        if state == "approved":
            acts.rule_approve(**card(row, rita))
        else:
            acts.rule_reject(reason="2", **card(row, rita))
    return {"rule": full}
