# title: the causal window is centred and sees the future
# base: honest/h_causal_conv1d
# replace: at = t + tap - (TAPS - 1) => at = t + tap - TAPS // 2
# expect: wrong value.
