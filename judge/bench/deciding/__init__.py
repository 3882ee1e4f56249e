"""The children that give a verdict: the referee, and the compile stage's judge."""
