# title: mean and spread are stored under each other's name
# base: honest/h_mean_pool_welford
# replace: return {"mean": mean, "std": std} => return {"mean": std, "std": mean}
# expect: wrong value.
