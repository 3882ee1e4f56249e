# title: the grid is the published number of rows
# base: honest/h_row_energy_kahan
# replace: energy_kahan[(rows,)] => energy_kahan[(32,)]
# sealed: taller {"ROWS": 50, "COLUMNS": 200}
# expect interpreter: wrong audit.sealed_case
# quick: yes
# expect: wrong value. | not_finite value.
