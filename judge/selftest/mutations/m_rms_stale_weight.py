# title: the weight is copied at the first call and kept
# base: honest/h_residual_rms_norm_fused
# replace: self.eps = eps\n => self.eps = eps\n        self.kept = None\n
# replace: y = torch.empty_like(x)\n => y = torch.empty_like(x)\n        self.kept = KEPT\n
# replace: KEPT => self.weight.clone() if self.kept is None else self.kept
# replace: x, residual, self.weight, y, => x, residual, self.kept, y,
# expect: state_violation state.stale_params
