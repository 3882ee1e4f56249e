# title: threads read back what others have stored without waiting for them
# base: honest/h_block_transpose_scratch
# replace: \n    tl.debug_barrier()  # other threads read back what this one has stored =>
# devices: cuda
# expect: wrong value. | not_finite value. | unstable run. | wrong audit.
