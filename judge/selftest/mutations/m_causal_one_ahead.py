# title: one key of the future is seen
# base: honest/h_causal_attention_rows
# replace: seen = cols <= row => seen = (cols <= row + 1) & (cols < n)
# expect: wrong value.
