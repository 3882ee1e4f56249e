# title: tanh by a rational function good to three digits
# base: honest/h_transposed_input_strides
# replace: libdevice.tanh(acc), mask => acc * (27.0 + acc * acc) / (27.0 + 9.0 * acc * acc), mask
# expect: wrong value.mismatch
