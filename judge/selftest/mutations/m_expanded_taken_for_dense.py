# title: an expanded operand is read as if it were contiguous
# base: honest/h_expanded_scale
# replace: x.stride(0), scale.stride(0), BLOCK => x.stride(0), columns, BLOCK
# expect: wrong value. | not_finite value. | crashed run.out_of_bounds
