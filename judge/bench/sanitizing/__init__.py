"""A candidate's one call under NVIDIA's compute-sanitizer: races and stray accesses, which no value shows."""
