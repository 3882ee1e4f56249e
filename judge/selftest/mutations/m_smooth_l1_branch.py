# title: the quadratic branch is not divided by beta
# base: honest/h_smooth_l1_two_stage
# replace: 0.5 * d * d / beta, => 0.5 * d * d,
# expect: wrong value.
