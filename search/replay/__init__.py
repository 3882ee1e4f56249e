"""A run replayed from its log, and what another policy would do."""
