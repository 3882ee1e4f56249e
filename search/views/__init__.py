"""Pages of the search, by noun."""
