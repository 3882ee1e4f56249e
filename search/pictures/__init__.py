"""Pictures of one search: drawn from stored rows only, each with the table and the files that hold the same values."""
