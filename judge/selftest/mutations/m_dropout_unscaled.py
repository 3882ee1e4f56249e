# title: kept elements are not scaled up
# base: honest/h_dropout_philox
# replace: tl.where(keep, value / (1.0 - p), 0.0) => tl.where(keep, value, 0.0)
# expect: wrong value.
