"""Two to four kernels beside each other: what was asked for, their facts, what may be compared, page and files."""
