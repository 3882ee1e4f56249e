# base: aa/a01_gate_16k
# title: a gate of 256k elements against itself
# size: 5 us
# case: 256k
# incumbent: self
# comparisons: 21
# audit: no
# expect: pass
