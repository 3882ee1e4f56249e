# title: the embedding is not scaled
# base: honest/h_embedding_flat
# replace: mask=inside) * scale => mask=inside)
# expect: wrong value.
