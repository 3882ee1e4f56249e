# title: the state is not carried from one step to the next
# base: honest/h_recurrence_steps
# replace: h = h / (1.0 + tl.exp(-a)) + x => h = x / (1.0 + tl.exp(-a)) + x
# expect: wrong value.
