# title: eps a hundred times too large
# base: honest/h_group_norm_block
# replace: height * width, self.norm.eps, => height * width, 1e-3,
# expect: wrong value.
