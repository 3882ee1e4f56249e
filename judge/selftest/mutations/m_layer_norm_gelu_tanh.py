# title: GELU by its tanh form where the problem asks for erf
# base: honest/h_layer_norm_gelu_two_pass
# replace: 0.5 * h * (1.0 + tl.erf(h * 0.7071067811865476)) => h * tl.sigmoid(1.59576912 * (h + 0.044715 * h * h * h))
# expect: wrong value.mismatch
