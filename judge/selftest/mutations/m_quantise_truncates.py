# title: quantised values are cut instead of rounded
# base: honest/h_quantise_row
# replace: libdevice.rint(tl.div_rn(v, step)).to(tl.int8) => tl.div_rn(v, step).to(tl.int8)
# expect: wrong value.mismatch
