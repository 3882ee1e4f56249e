# title: eps is added outside the root
# base: honest/h_layer_norm_gelu_two_pass
# replace: 1 / tl.sqrt(var + eps) => 1 / (tl.sqrt(var) + eps)
# expect: wrong value.
