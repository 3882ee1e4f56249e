# title: the stride of the loop is one block instead of all programs', later blocks overlap
# base: honest/h_swiglu_grid_stride
# replace: step = tl.num_programs(0) * BLOCK => step = (tl.num_programs(0) + 1) * BLOCK
# expect: wrong value. | not_finite value.
