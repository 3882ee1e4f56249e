# title: one TF32 product where three were meant
# base: honest/h_matmul_swish_tf32x3
# replace: input_precision="tf32x3" => input_precision="tf32"
# expect: lower_precision precision.tf32
