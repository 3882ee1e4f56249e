# title: the residual is not added
# base: honest/h_residual_rms_norm_fused
# replace: hidden += tl.load(r_ptr + pid * width + cols, mask=mask, other=0.0) => hidden += 0.0
# expect: wrong value.
