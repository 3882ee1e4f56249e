# base: aa/a11_product_512
# title: a product of 1k x 1k matrices against itself
# case: 1k
# incumbent: self
# comparisons: 21
# audit: no
# expect: pass
