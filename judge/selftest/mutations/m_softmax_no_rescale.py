# title: the running sum is not rescaled when a new maximum comes
# base: honest/h_softmax_online
# replace: running_sum * tl.exp(running_max - new_max) + => running_sum +
# expect: wrong value.
