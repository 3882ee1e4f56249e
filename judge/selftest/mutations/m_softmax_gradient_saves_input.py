# title: backward of softmax takes the input for the output
# base: honest/h_softmax_gradients
# replace: ctx.save_for_backward(y) => ctx.save_for_backward(x)
# expect: wrong value. | not_finite value.
