"""Form fields that forms of actions need beside Django's own."""

from __future__ import annotations

from typing import Any

from django import forms


class TextListField(forms.Field):
    """Several texts under one name, such as ticked rows; a list of strings in JSON."""

    widget = forms.MultipleHiddenInput

    def clean(self, value: Any) -> list[str]:
        """The texts, without empty ones. Raises ValidationError when it is required and there is none."""
        texts = [str(one) for one in value or () if str(one)]
        if self.required and not texts:
            raise forms.ValidationError(self.error_messages["required"], code="required")
        return texts


class NumberListField(TextListField):
    """Several whole numbers under one name; a list of integers in JSON."""

    def clean(self, value: Any) -> list[int]:  # type: ignore[override]
        """The numbers. Raises ValidationError for anything else, and when it is required and there is none."""
        number = forms.IntegerField()
        return [number.clean(text) for text in super().clean(value)]
