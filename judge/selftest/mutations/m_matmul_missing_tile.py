# title: the last tile of a persistent loop is never taken
# base: honest/h_deep_matmul_persistent
# replace: range(tl.program_id(0), tiles, PROGRAMS) => range(tl.program_id(0), tiles - 1, PROGRAMS)
# expect: wrong value. | not_finite value.
