# title: the row is taken for two blocks long, whatever its length
# base: honest/h_row_energy_block
# replace: HALF=triton.next_power_of_2(x.shape[1]) // 2 => HALF=512
# sealed: longer {"ROWS": 8, "COLUMNS": 1300}
# expect interpreter: wrong audit.sealed_case
# expect: wrong value.
