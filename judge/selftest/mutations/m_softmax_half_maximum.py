# title: the maximum is taken over the first half of each row
# base: honest/h_softmax_three_pass
# replace: best = tl.maximum(best, tl.load(X + base + off + idx, mask=m, => best = tl.maximum(best, tl.load(X + base + off + idx, mask=off + idx < N // 2,
# expect: not_finite value. | wrong value.
