"""Pages of failures."""
