# title: value and gate are swapped
# base: honest/h_mish_gate_bf16
# replace: (x, gate, y, x.numel() => (gate, x, y, x.numel()
# expect: wrong value.
