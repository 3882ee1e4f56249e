# title: the heads are reinterpreted instead of moved: same shape, other order
# base: honest/h_permuted_output_view
# replace: y.view(*x.shape[:2], self.heads, => y.view(x.shape[0], self.heads, -1,
# replace: self.width).transpose(1, 2) => self.width)
# expect: wrong value.
