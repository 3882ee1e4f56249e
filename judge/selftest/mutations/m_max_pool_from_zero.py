# title: the maximum starts from zero, so negative windows answer zero
# base: honest/h_max_pool_flat
# replace: best = tl.full((BLOCK,), -float("inf"), tl.float32) => best = tl.full((BLOCK,), 0.0, tl.float32)
# expect: wrong value.
