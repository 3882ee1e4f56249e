# title: the maximum ignores NaN
# base: honest/h_gap_maximum
# replace: tl.where(gaps > 0, float("nan"), best) => best
# expect: wrong value.
