# title: the sum runs down the tile instead of along the row
# base: honest/h_softmax_tiles
# replace: tl.sum(e, axis=1, keep_dims=True) => tl.sum(e, axis=0, keep_dims=True)
# expect: wrong value.
