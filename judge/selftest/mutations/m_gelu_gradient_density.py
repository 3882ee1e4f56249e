# title: the density in the slope of GELU is not normalised
# base: honest/h_bias_gelu_gradients
# replace: * 0.3989422804014327 => * 0.5
# expect: wrong value.
