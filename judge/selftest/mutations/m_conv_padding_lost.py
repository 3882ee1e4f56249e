# title: the window starts inside the image: no padding
# base: honest/h_conv_direct
# replace: tap % TAPS - 1 => tap % TAPS
# expect: wrong value.
