# title: the scan's combine function takes its sides in the wrong order
# base: honest/h_recurrence_scan
# replace: gate_b * add_a + add_b => gate_a * add_b + add_a
# expect: wrong value.
