# title: integers by cutting the fraction off
# base: honest/h_round_half_even
# replace: low = tl.floor(v) => low = v.to(tl.int32).to(tl.float32)
# replace: up = (rest > 0.5) | ((rest == 0.5) & odd) => up = rest > 2.0
# expect: wrong value.mismatch
