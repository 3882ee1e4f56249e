"""Lists as people filtered and sorted them, by name."""
