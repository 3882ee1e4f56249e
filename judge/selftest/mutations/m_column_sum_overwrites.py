# title: the last chunk of rows overwrites the others' sums
# base: honest/h_column_sum_atomics
# replace: tl.atomic_add( => tl.store(
# expect: wrong value. | unstable run.
