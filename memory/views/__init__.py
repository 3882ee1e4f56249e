"""Pages of memory."""
