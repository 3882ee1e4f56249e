"""What a child gives up before foreign code runs, and the proof that it has."""
