# title: the gradient of the bias misses the last row
# base: honest/h_bias_gelu_gradients
# replace: for row in range(rows): => for row in range(rows - 1):
# expect: wrong value.
