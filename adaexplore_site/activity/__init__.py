"""What people did, over everything: the audit in words, what takes an act back, and doing so."""
