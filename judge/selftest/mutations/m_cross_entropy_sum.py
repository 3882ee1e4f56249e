# title: the loss is averaged over classes instead of rows
# base: honest/h_cross_entropy_rows
# replace: return loss.mean() => return loss.sum() / classes
# expect: wrong value.
