# base: aa/a11_product_512
# title: a product of 5k x 5k matrices against itself
# case: 5k
# incumbent: self
# comparisons: 21
# audit: no
# expect: pass
