# title: the padding is zero instead of minus infinity
# base: honest/h_max_pool_flat
# replace: mask=inside, other=-float("inf") => mask=inside, other=0.0
# expect: wrong value.
