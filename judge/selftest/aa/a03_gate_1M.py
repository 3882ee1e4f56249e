# base: aa/a01_gate_16k
# title: a gate of 1M elements against itself
# size: 5 us
# case: 1M
# incumbent: self
# comparisons: 21
# audit: no
# expect: pass
