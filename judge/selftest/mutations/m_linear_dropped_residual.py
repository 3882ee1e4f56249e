# title: the residual is not added after the activation
# base: honest/h_linear_gelu_prepared
# replace: gelu + tl.load(r_ptr + at, mask=inside, other=0.0) => gelu
# expect: wrong value.
