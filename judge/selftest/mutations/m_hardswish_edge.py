# title: the clamp's lower edge is off
# base: honest/h_hardswish_clamp
# replace: tl.clamp(mixed, -4.0, 4.0) => tl.clamp(mixed, -2.5, 4.0)
# expect: wrong value.
