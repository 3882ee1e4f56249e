# title: the reference changes its input, the candidate does not
# base: honest/h_in_place_relu_copy
# replace: x.copy_(y)\n        return x => return y
# expect: state_violation state.input_changed
