"""The pure core of the search: params, tree, reward, policies, pool, decide. No Django, no clock, no global randomness."""
