# title: the result is rounded to fp16 and widened again
# base: honest/h_swiglu_sigmoid
# replace: tl.sigmoid(gate) * up, mask=mask => tl.sigmoid(gate) * up.to(tl.float16).to(tl.float32), mask=mask
# expect: wrong value. | lower_precision precision.
