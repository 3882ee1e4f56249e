# title: the weights pass through fp16 on their way
# base: honest/h_softmax_tiles
# replace: e = tl.exp(z) => e = tl.exp(z).to(tl.float16).to(tl.float32)
# expect: wrong value. | lower_precision precision.
