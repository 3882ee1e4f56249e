# title: strides are ignored, so transposed matrices are misread
# base: honest/h_transposed_input_strides
# replace: *a.stride(), *b.stride(), BM=32 => K, 1, N, 1, BM=32
# expect: wrong value.
