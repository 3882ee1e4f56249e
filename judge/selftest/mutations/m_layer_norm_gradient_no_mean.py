# title: the gradient of rows does not subtract the mean
# base: honest/h_layer_norm_gradients
# replace: (scaled - hat * along - mean) * scale => (scaled - hat * along) * scale
# expect: wrong value.
