# title: a bfloat16 accumulator over a long inner side
# base: honest/h_deep_matmul_bf16
# replace: acc = tl.zeros((BM, BN), dtype=tl.float32) => acc = tl.zeros((BM, BN), dtype=tl.bfloat16)
# expect: wrong value.mismatch
