# title: a tile of the left matrix is read past its end, onto what the zeros of the other one cancel
# base: honest/h_matmul_swish_ieee
# replace: mask=(offs_m[:, None] < M) & (offs_k[None, :] < K - k), => mask=offs_m[:, None] < M,
# expect: crashed run.out_of_bounds
# expect cuda: not_finite value. | wrong value. | wrong audit.
