# title: the last sweep stops one block early
# base: honest/h_softmax_three_pass
# replace: \n\n    for off in range(0, N, BLOCK):\n        m => \n    for off in range(0, N - BLOCK, BLOCK):\n        m
# expect: wrong value. | not_finite value.
