# title: counts are read and written back without atomics
# base: honest/h_histogram_atomics
# replace: tl.atomic_add(counts + row * CLASSES + label, 1, => counts += row * CLASSES\n    STORE
# replace: STORE => tl.store(counts + label, 1 + tl.load(counts + label, mask=inside),
# expect: wrong value.mismatch | unstable run.
