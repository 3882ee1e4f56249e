# title: tl.dot on fp32 without asking for IEEE
# base: honest/h_matmul_swish_ieee
# replace: tl.dot(a, b, input_precision="ieee") => tl.dot(a, b)
# quick: yes
# expect: lower_precision precision.tf32
