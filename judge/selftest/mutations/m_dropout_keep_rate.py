# title: elements are kept at the rate they should be dropped
# base: honest/h_dropout_philox
# replace: tl.rand(seed, offsets) >= p => tl.rand(seed, offsets) < p
# expect: wrong value.
