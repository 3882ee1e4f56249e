# title: the block is the power of two below, right only for powers of two
# base: honest/h_softmax_persistent
# replace: BLOCK=triton.next_power_of_2(cols) => BLOCK=2 ** (cols.bit_length() - 1)
# expect: wrong value. | not_finite value.
