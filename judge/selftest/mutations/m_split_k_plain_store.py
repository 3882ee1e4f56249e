# title: partial sums overwrite each other instead of adding up
# base: honest/h_split_k_atomics
# replace: tl.atomic_add(c + => tl.store(c +
# expect: wrong value. | unstable run.
