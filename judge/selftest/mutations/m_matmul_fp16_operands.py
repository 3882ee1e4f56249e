# title: operands rounded to fp16 for speed
# base: honest/h_bmm_strides
# replace: tl.dot(a, b, input_precision="ieee") => tl.dot(a.to(tl.float16), b.to(tl.float16))
# expect: lower_precision precision.
