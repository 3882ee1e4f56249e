# title: the input itself is returned where the reference returns a copy
# base: honest/h_copy_and_norms
# replace: return y, norm => return x, norm
# expect: state_violation state.alias
