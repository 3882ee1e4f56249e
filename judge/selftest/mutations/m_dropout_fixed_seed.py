# title: every call drops the same elements
# base: honest/h_dropout_philox
# replace: seed = int(torch.randint(0, 2**31 - 1, (), device="cpu")) => seed = 1234
# expect: wrong value.
