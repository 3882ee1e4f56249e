# title: negative numbers are rounded towards zero
# base: honest/h_floor_division
# replace: below = (r != 0) & ((r < 0) != (step < 0)) => below = r != r
# expect: wrong value.mismatch
