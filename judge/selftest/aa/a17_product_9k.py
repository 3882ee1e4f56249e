# base: aa/a11_product_512
# title: a product of 9k x 9k matrices against itself
# size: 30 ms
# case: 9k
# incumbent: self
# comparisons: 21
# audit: no
# limits: wall_s=120 stage_s=60
# expect: pass
