# title: partial sums of chunks that no program wrote are added up
# base: honest/h_column_sum_partials
# replace: (triton.cdiv(cols, 32), chunks)] => (triton.cdiv(cols, 32), chunks - 1)]
# expect: wrong value. | not_finite value. | unstable run.
