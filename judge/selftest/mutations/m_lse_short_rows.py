# title: the last column is left out by an extent that is one too small
# base: honest/h_lse_online
# replace: mask=start + lane < n, => mask=start + lane < n - 1,
# expect: wrong value.
