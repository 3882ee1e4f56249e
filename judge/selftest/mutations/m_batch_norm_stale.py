# title: gain and shift folded once instead of in prepare
# base: honest/h_batch_norm_folded
# replace: def prepare(self): => def fold(self):
# replace: area = height * width\n => area = height * width\n        _ = self.gain is None and self.fold()\n
# quick: yes
# expect: state_violation state.stale_params
