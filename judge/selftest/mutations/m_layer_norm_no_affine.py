# title: weight and bias are taken for the one and zero of a fresh module
# base: honest/h_layer_norm_gelu_two_pass
# replace: h = centred * rstd * w + b => h = centred * rstd
# expect: wrong value.
