# base: aa/a01_gate_16k
# title: a gate of 4M elements against itself
# case: 4M
# incumbent: self
# comparisons: 21
# audit: no
# expect: pass
