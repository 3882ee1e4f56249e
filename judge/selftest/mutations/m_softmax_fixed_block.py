# title: the block is the published length rounded up, rows longer than that are cut
# base: honest/h_softmax_one_block
# replace: block = triton.next_power_of_2(columns) => block = 1024
# sealed: longer {"ROWS": 5, "COLUMNS": 1500}
# expect interpreter: wrong audit.sealed_case
# expect: wrong value. | not_finite value.
