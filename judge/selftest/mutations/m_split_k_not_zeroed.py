# title: partial sums are added to memory that nobody zeroed
# base: honest/h_split_k_atomics
# replace: c = torch.zeros((M, N), => c = torch.empty((M, N),
# expect: wrong value. | not_finite value. | unstable run.
