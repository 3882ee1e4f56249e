# title: rows with the same place overwrite each other
# base: honest/h_index_add_atomics
# replace: tl.atomic_add(out + target[:, None] * width + c[None, :], => at = out + target[:, None] * width + c[None, :]\n    STORE
# replace: STORE value, mask=inside, sem="relaxed") => tl.store(at, value + tl.load(at, mask=inside), mask=inside)
# expect: wrong value. | unstable run.
