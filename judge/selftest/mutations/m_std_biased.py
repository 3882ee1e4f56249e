# title: the spread is divided by n instead of n - 1
# base: honest/h_mean_pool_two_pass
# replace: axis=1) / (area - 1)) => axis=1) / area)
# expect: wrong value.
