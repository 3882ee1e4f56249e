# title: the sums are taken before the new rows are written
# base: honest/h_cache_update
# replace: write_rows[(keys.shape[0],)]( => late = (
# replace: \n        return out => \n        write_rows[(keys.shape[0],)](*late)\n        return out
# replace: width, BLOCK=triton.next_power_of_2(width)) => width, triton.next_power_of_2(width))
# expect: wrong value.
