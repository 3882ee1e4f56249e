# title: ties are rounded up instead of to the even integer
# base: honest/h_round_half_even
# replace: (rest == 0.5) & odd => rest == 0.5
# expect: wrong value.mismatch
