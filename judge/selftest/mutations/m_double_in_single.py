# title: fp64 computed in fp32
# base: honest/h_double_softplus
# replace: tl.log(1.0 + tl.exp(tl.minimum(v, 20.0))) => tl.log(1.0 + tl.exp(tl.minimum(v.to(tl.float32), 20.0)))
# expect: wrong value. | lower_precision precision.
