# title: the scores are not divided by the root of the width
# base: honest/h_attention_flash
# replace: width**-0.5, WIDTH => 1.0, WIDTH
# expect: wrong value.
