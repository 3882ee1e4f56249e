"""Which layers and functions the installed torch has, and what they do to a tensor: found by trying, not typed in."""
