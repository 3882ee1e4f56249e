# title: the exponential is a cubic polynomial good to four digits
# base: honest/h_softmax_exp2
# replace: p = tl.exp2((v - top) * scale) => z = tl.maximum((v - top) * scale, -126.0)\n    SPLIT\n    p = CUBIC
# replace: SPLIT => f = z - tl.floor(z)
# replace: CUBIC => (1 + f * (0.69606566 + f * (0.22449433 + f * 0.07944023))) * tl.exp2(tl.floor(z))
# expect: wrong value.
