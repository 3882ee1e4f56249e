# title: the last partial sum of weight and bias is left out
# base: honest/h_layer_norm_gradients
# replace: for part in range(PARTS): => for part in range(PARTS - 1):
# expect: wrong value.
