# title: the variance is divided by N - 1
# base: honest/h_layer_norm_gelu_two_pass
# replace: tl.sum(centred * centred, axis=0) / N => tl.sum(centred * centred, axis=0) / (N - 1)
# expect: wrong value.
