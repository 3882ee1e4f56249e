# title: backward of softmax without the sum over the row
# base: honest/h_softmax_gradients
# replace: out * (given - total) => out * given
# expect: wrong value.
