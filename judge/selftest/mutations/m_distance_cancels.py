# title: distances by the expanded square in TF32
# base: honest/h_pairwise_distance_direct
# replace: diff = x[:, None] - y[None, :] => diff = x.to(tl.float16)[:, None] - y.to(tl.float16)[None, :]
# replace: acc += diff * diff => acc += (diff * diff).to(tl.float32)
# expect: wrong value. | lower_precision precision.
