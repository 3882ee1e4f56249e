"""How fast: clocks, pairs, intervals, the trusted clock, who may use the GPU."""
