# title: the floor is added to the length instead of bounding it
# base: honest/h_unit_rows
# replace: v / tl.maximum(length, eps) => v / (length + eps)
# expect: wrong value.
