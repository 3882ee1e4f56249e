"""Signed webhooks: events leave as rows, a task sends them, a guard keeps them off this machine's own network."""
