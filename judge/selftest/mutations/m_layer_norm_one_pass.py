# title: the variance is a difference of two means, which cancel far from zero
# base: honest/h_layer_norm_gelu_two_pass
# replace: var = tl.sum(centred * centred, axis=0) / N => var = tl.sum(x * x, axis=0) / N - mean * mean
# expect: wrong value. | not_finite value.
