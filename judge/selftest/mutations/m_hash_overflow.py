# title: products in 32-bit integers wrap around
# base: honest/h_polynomial_hash
# replace: total = tl.zeros((BLOCK,), tl.int64) => total = tl.zeros((BLOCK,), tl.int32)
# replace: mask=inside, other=0) => mask=inside, other=0).to(tl.int32)
# expect: wrong value.mismatch
