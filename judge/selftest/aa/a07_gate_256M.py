# base: aa/a01_gate_16k
# title: a gate of 256M elements against itself
# size: 1 ms
# case: 256M
# incumbent: self
# comparisons: 21
# audit: no
# expect: pass
