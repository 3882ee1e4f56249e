# title: equal values are removed together
# base: honest/h_top_values_removal
# replace: v = tl.where(at == first, -float("inf"), v) => v = tl.where(v == best, -float("inf"), v)
# expect: wrong value. | not_finite value.
