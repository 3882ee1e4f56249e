# title: the row-wise any forgets the second condition
# base: honest/h_threshold_mask
# replace: tl.max(hit.to(tl.int32), axis=0) > 0 => tl.max((v > tl.load(limit + row)).to(tl.int32), axis=0) > 0
# expect: wrong value.mismatch | unstable run.
