# title: the maximum starts from zero: a row far below it has nothing but zeros to divide
# base: honest/h_softmax_three_pass
# replace: best = tl.full((BLOCK,), float("-inf"), tl.float32) => best = tl.full((BLOCK,), 0.0, tl.float32)
# expect: not_finite value.
