# title: booleans are returned as bytes
# base: honest/h_threshold_mask_bytes
# replace: return above.view(torch.bool), found.view(torch.bool) => return above, found
# expect: wrong_structure structure.dtype
