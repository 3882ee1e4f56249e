# base: aa/a11_product_512
# title: a product of 2k x 2k matrices against itself
# case: 2k
# incumbent: self
# comparisons: 21
# audit: no
# expect: pass
