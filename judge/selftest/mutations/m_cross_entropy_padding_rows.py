# title: the rows past the end add their loss
# base: honest/h_cross_entropy_atomic
# replace: part = tl.sum(tl.where(real, lse - picked, 0.0), axis=0) => part = tl.sum(lse - picked, axis=0)
# replace: mask = real[:, None] & (cols => x = tl.zeros((ROWS, BLOCK), tl.float32)\n    mask = real[:, None] & (cols
# replace: mask=mask, other=-1e30) => mask=mask, other=x)
# sealed: odd {"ROWS": 29, "CLASSES": 200}
# expect: wrong value. | not_finite value.
# expect cuda: wrong value. | wrong audit.sealed_case
