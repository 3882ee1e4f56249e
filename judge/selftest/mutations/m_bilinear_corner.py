# title: coordinates without the half-pixel shift
# base: honest/h_bilinear_upsample
# replace: fw = tl.maximum((ow.to(tl.float32) + 0.5) * 0.5 - 0.5, 0.0) => fw = ow.to(tl.float32) * 0.5
# expect: wrong value.
