# title: a literal eps that is not the module's
# base: honest/h_layer_norm_gelu_two_pass
# replace: self.norm.eps, => 1e-6,
# expect: wrong value.
