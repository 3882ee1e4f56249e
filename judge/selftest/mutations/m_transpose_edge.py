# title: the mask's sides are swapped, right only for squares
# base: honest/h_transpose_tiles
# replace: mask=(a[:, None] < A) & (c[None, :] < C) => mask=(a[:, None] < C) & (c[None, :] < A)
# expect: wrong value. | not_finite value. | crashed run.out_of_bounds
