# title: the accumulator is not cleared between two tiles of one program
# base: honest/h_deep_matmul_persistent
# replace: acc = tl.zeros((BM, BN), tl.float32) => acc += 0.0
# replace: \n    for tile => \n    acc = tl.zeros((BM, BN), tl.float32)\n    for tile
# expect: wrong value.
