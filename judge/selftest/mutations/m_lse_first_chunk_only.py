# title: only the first chunk's maximum is used
# base: honest/h_lse_split
# replace: peak = tl.max(m, 1) => peak = tl.max(tl.where(c[None, :] == 0, m, -1e30), 1)\n    m = peak[:, None]
# expect: wrong value. | not_finite value.
