# title: the maximum of the scores is not subtracted: large ones overflow
# base: honest/h_attention_materialised
# replace: tl.exp(v - tl.max(v, 1)[:, None]) => tl.exp(v)
# expect: not_finite value. | wrong value.
