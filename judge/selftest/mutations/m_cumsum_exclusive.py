# title: the running sum leaves out its own element
# base: honest/h_cumsum_carry
# replace: tl.cumsum(v, 0) + carry => tl.cumsum(v, 0) - v + carry
# expect: wrong value.
