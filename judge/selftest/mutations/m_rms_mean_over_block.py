# title: the mean is taken over the padded block, right only for powers of two
# base: honest/h_rms_norm_bf16
# replace: tl.sum(x * x, axis=0) / n => tl.sum(x * x, axis=0) / BLOCK
# sealed: odd {"TOKENS": 20, "WIDTH": 600}
# expect: wrong value.
# expect cuda: wrong audit.sealed_case
