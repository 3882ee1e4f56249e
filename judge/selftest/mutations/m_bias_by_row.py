# title: the bias is broadcast along the wrong axis, which only squares forgive
# base: honest/h_bias_gelu_tiles
# replace: bias = tl.load(b + c, mask=c < cols, other=0.0) => bias = tl.load(b + r, mask=r < cols, other=0.0)
# expect: wrong value.
