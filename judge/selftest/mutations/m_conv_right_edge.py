# title: the right edge is not masked, the next row is read instead
# base: honest/h_conv_implicit_gemm
# replace: (iw >= 0) & (iw < W) & => (iw >= 0) &
# expect: wrong value. | crashed run.out_of_bounds
