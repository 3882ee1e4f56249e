# title: the loss is added to memory that nobody zeroed
# base: honest/h_cross_entropy_atomic
# replace: out = torch.zeros((), => out = torch.empty((),
# expect: wrong value. | not_finite value.
