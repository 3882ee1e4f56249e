# title: differences rounded to bfloat16 before they are squared
# base: honest/h_row_energy_kahan
# replace: term = d * d - lost => d = d.to(tl.bfloat16).to(tl.float32)\n        term = d * d - lost
# expect: wrong value. | lower_precision precision.
