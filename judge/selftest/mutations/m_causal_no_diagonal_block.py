# title: the block on the diagonal is skipped, or only half of it is seen
# base: honest/h_causal_attention_split
# replace: rn[None, :] < n), s, -1.0e30) => rn[None, :] < n // 2), s, -1.0e30)
# expect: wrong value.
