# title: the padding's distance from the mean enters the variance
# base: honest/h_layer_norm_gelu_two_pass
# replace: centred = tl.where(mask, x - mean, 0.0) => centred = x - mean
# sealed: odd {"TOKENS": 20, "WIDTH": 300}
# expect: wrong value.
# expect cuda: wrong audit.sealed_case
