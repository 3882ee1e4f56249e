# title: keys past the end take part with a score of zero
# base: honest/h_attention_exp2
# replace: \n        s = tl.where(cols[None, :] < n, s, float("-inf")) =>
# sealed: odd {"BATCH": 1, "LENGTH": 50, "WIDTH": 32}
# expect: wrong value.
# expect cuda: wrong audit.sealed_case
