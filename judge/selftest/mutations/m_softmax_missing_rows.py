# title: a persistent loop that leaves out its last step
# base: honest/h_softmax_persistent
# replace: tl.range(start, rows, step, => tl.range(start, rows - step, step,
# expect: wrong value. | not_finite value.
