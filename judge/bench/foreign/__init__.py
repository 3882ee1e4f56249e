"""Other people's code, read and loaded: what it may be, what it raised, where it is."""
