# title: of equal values the last one is named
# base: honest/h_argmax_loop
# replace: better = v > best => better = v >= best
# replace: first = tl.min( => first = tl.max(
# replace: tl.where(best == top, where, n_cols) => tl.where(best == top, where, -1)
# expect: wrong value.mismatch
