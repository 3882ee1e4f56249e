# base: aa/a01_gate_16k
# title: a gate of 64M elements against itself
# size: 100 us
# case: 64M
# incumbent: self
# comparisons: 21
# audit: no
# expect: pass
