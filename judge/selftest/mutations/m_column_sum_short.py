# title: the rows' extent is off by one
# base: honest/h_column_sum_loop
# replace: mask=(r[:, None] < rows) & => mask=(r[:, None] < rows - 1) &
# expect: wrong value.
