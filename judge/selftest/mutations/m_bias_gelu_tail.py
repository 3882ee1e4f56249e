# title: the grid is rounded down, the last elements are never written
# base: honest/h_bias_gelu_flat
# replace: triton.cdiv(total, 1024), => total // 1024,
# sealed: odd {"ROWS": 3, "COLUMNS": 500}
# expect: wrong value. | not_finite value.
# expect cuda: wrong audit.sealed_case
