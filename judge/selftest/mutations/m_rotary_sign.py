# title: the second half is rotated the wrong way
# base: honest/h_rotary_heads
# replace: right * cos + left * sin => right * cos - left * sin
# expect: wrong value.
