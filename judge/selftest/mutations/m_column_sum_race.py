# title: additions to the same place without atomics: updates get lost
# base: honest/h_column_sum_atomics
# replace: tl.atomic_add(out_ptr + offs_c, partial, => out_ptr += offs_c\n    STORE
# replace: STORE => tl.store(out_ptr, partial + tl.load(out_ptr, mask=offs_c < cols),
# devices: cuda
# expect: wrong value. | unstable run.
