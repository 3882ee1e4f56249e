# title: each block starts again from nothing
# base: honest/h_cumsum_carry
# replace: carry += tl.sum(v, 0) => carry += 0.0
# expect: wrong value.
