# title: the bias is indexed by the batch as well, modulo the wrong count
# base: honest/h_biased_softmax_heads
# replace: (plane % heads) * area => (plane // heads) * area
# expect: wrong value.
