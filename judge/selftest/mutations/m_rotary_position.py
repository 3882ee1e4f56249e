# title: the angle is taken from the head instead of the position
# base: honest/h_rotary_flat
# replace: position = at // (width * heads) % length => position = at // width % length
# expect: wrong value.
