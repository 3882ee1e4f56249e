# title: blocks overlap, and an in-place shift is applied twice there
# base: honest/h_in_place_relu
# replace: tl.program_id(0) * BLOCK + => tl.program_id(0) * (BLOCK - 16) +
# replace: (triton.cdiv(x.numel(), 1024),) => (triton.cdiv(x.numel(), 1008),)
# expect: wrong value. | state_violation state. | unstable run.
