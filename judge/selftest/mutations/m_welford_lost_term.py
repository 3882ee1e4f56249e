# title: Welford's merge without the term for the distance of the means
# base: honest/h_layer_norm_gelu_welford
# replace: m2_a + m2_b + delta * delta * n_a * share => m2_a + m2_b
# expect: wrong value. | not_finite value.
