# title: the taps are taken in reverse order
# base: honest/h_conv_unfold
# replace: tl.load(w + o[:, None] * K + k[None, :], => tl.load(w + o[:, None] * K + K - 1 - k[None, :],
# expect: wrong value.
