"""Source text: static checks and highlighting."""
