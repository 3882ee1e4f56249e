"""The form field that has the built-in proposer make mistakes, shared by everything that starts searches."""

from __future__ import annotations

from django import forms

from search.proposers.builtin.habits import INSTALLED, MIXED


class DialectFields(forms.Form):
    """`options()` gives what differs from the proposer's own."""

    dialect = forms.ChoiceField(
        choices=[(INSTALLED, "none: every kernel is right"), (MIXED, "those of language models, to try memory")],
        initial=INSTALLED,
        required=False,
        label="Mistakes of the built-in proposer",
    )

    def options(self) -> dict[str, str]:
        """Options of the proposer that differ from its own. Call it on a valid form."""
        return {"dialect": MIXED} if self.cleaned_data["dialect"] == MIXED else {}
