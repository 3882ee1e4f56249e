# base: aa/a11_product_512
# title: a product of 6k x 6k matrices against itself
# size: 10 ms
# case: 6k
# incumbent: self
# comparisons: 21
# audit: no
# limits: wall_s=120 stage_s=60
# expect: pass
