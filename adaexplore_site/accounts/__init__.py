"""Members, roles, sign-in, API tokens."""
