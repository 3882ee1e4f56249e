# title: the padding's distance from the mean enters the spread
# base: honest/h_mean_pool_two_pass
# replace: d = tl.where(inside, v - mean[:, None], 0.0) => d = v - mean[:, None]
# expect: wrong value. | not_finite value.
