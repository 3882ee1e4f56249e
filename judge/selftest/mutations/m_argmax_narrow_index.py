# title: places are returned as 32-bit integers
# base: honest/h_argmax_block
# replace: place = torch.empty(rows, dtype=torch.int64, => place = torch.empty(rows, dtype=torch.int32,
# expect: wrong_structure structure.dtype
