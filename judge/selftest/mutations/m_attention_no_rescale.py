# title: earlier values are not rescaled when the maximum grows
# base: honest/h_attention_flash
# replace: acc = acc * alpha[:, None] + tl.dot => acc = acc + tl.dot
# expect: wrong value.
