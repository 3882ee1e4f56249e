# title: masked lanes count as the first class
# base: honest/h_histogram_atomics
# replace: label, 1, mask=inside) => label, 1)
# expect: wrong value.mismatch
