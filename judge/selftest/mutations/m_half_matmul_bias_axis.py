# title: the bias is added to rows instead of columns
# base: honest/h_half_matmul_fp32_accumulator
# replace: tl.load(bias_ptr + offs_n, mask=offs_n < N, => tl.load(bias_ptr + offs_m, mask=offs_m < N,
# replace: .to(tl.float32)[None, :] => .to(tl.float32)[:, None]
# expect: wrong value.
