# title: quotient and remainder are returned in each other's place
# base: honest/h_floor_division
# replace: return q, r => return r, q
# expect: wrong value.mismatch
