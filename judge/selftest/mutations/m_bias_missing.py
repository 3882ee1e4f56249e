# title: the bias of a linear layer is forgotten
# base: honest/h_linear_relu_fused
# replace: tl.maximum(acc + bias[None, :], 0.0) => tl.maximum(acc, 0.0)
# expect: wrong value.
