# title: the channel is taken from the batch when images are not square
# base: honest/h_batch_norm_flat
# replace: c = at // area % channels => c = at % area % channels
# expect: wrong value.
