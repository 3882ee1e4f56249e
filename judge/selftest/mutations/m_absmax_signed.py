# title: the largest value is taken without its sign removed
# base: honest/h_absmax_two_kernels
# replace: tl.maximum(best, tl.abs(tl.load( => tl.maximum(best, (tl.load(
# expect: wrong value. | not_finite value.
