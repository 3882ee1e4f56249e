# title: weights and values rounded to bfloat16
# base: honest/h_attention_flash
# replace: tl.dot(p, v, input_precision="ieee") => tl.dot(p.to(tl.bfloat16), v.to(tl.bfloat16))
# expect: lower_precision precision. | wrong value.
