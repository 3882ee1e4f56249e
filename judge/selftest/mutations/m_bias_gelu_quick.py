# title: GELU by the logistic short cut
# base: honest/h_bias_gelu_flat
# replace: 0.5 * h * (1.0 + tanh(inner)) * scale => h * tl.sigmoid(1.702 * h) * scale
# expect: wrong value.mismatch
