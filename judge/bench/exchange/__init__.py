"""How two children talk: bounded messages, shared memory, signatures."""
