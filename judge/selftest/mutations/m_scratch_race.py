# title: programs read back what others of the same launch may not have stored yet
# base: honest/h_block_transpose_scratch
# replace: tile = tl.load(x + row_major => theirs = row_major + (tl.num_programs(0) - 1 - 2 * tl.program_id(0)) * side * side\n    tile = tl.load(x + theirs
# replace: tl.store(scratch + row_major => tl.store(scratch + theirs
# expect: wrong value. | not_finite value. | unstable run.
