# title: the inner side's tail is left out
# base: honest/h_matmul_swish_ieee
# replace: in range(0, K, BLOCK_K) => in range(0, K - BLOCK_K + 1, BLOCK_K)
# expect: wrong value.
