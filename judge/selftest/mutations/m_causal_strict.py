# title: the diagonal itself is masked
# base: honest/h_causal_attention_loop
# replace: rm[:, None] >= rn[None, :] => rm[:, None] > rn[None, :]
# expect: not_finite value. | wrong value.
