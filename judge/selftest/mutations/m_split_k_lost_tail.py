# title: the number of parts is rounded down
# base: honest/h_split_k_buffer
# replace: count = triton.cdiv(K, span) => count = K // span
# expect: wrong value.
