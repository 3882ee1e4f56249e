"""Pure parts of rules: wording and likeness, what a review is worth, rule files. No Django, no clock."""
