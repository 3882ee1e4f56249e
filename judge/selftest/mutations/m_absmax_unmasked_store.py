# title: the store has lost its mask and runs into the next row
# base: honest/h_absmax_one_block
# replace: col_offsets, y, mask=mask) => col_offsets, y)
# expect: crashed run.out_of_bounds
# expect cuda: wrong value. | wrong audit. | unstable run.
