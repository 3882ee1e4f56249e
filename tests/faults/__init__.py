"""Real processes, killed at random while searches run: `make faults`. Not part of the suite, but for a short form."""
