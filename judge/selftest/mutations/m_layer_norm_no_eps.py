# title: eps is left out
# base: honest/h_layer_norm_gelu_two_pass
# replace: tl.sqrt(var + eps) => tl.sqrt(var)
# expect: wrong value. | not_finite value.
