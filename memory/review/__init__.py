"""Pages for the review of rules: queue, library, history, files."""
