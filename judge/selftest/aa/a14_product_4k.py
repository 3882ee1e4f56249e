# base: aa/a11_product_512
# title: a product of 4k x 4k matrices against itself
# case: 4k
# incumbent: self
# comparisons: 21
# audit: no
# expect: pass
