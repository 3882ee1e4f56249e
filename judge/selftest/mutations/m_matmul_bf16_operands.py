# title: operands rounded to bfloat16 for speed
# base: honest/h_linear_relu_fused
# replace: tl.dot(x, tl.trans(w), input_precision="ieee") => tl.dot(x.to(tl.bfloat16), tl.trans(w).to(tl.bfloat16))
# expect: lower_precision precision.half
