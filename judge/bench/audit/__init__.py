"""A hard look at a would-be best, in fresh processes."""
