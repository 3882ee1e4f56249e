# title: GELU by erf where the problem asks for its tanh form
# base: honest/h_bias_gelu_flat
# replace: 0.5 * h * (1.0 + tanh(inner)) * scale => 0.5 * h * (1.0 + tl.erf(h * 0.7071067811865476)) * scale
# expect: wrong value.mismatch
