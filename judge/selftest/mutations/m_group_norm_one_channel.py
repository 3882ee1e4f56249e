# title: statistics over the first channel instead of the whole group
# base: honest/h_group_norm_block
# replace: mean = tl.sum(x, axis=0) / size => mean = tl.sum(tl.where(offs < area, x, 0.0), axis=0) / area
# expect: wrong value.
