# title: the mask's fill value is zero, so the padding counts
# base: honest/h_softmax_one_block
# replace: other=-float("inf") => other=0.0
# expect: wrong value.
