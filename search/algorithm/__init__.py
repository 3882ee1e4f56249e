"""The pure core: params, tree, reward, policies, pool, decide. No Django, no clock, no global randomness."""
