"""The policy laboratory: searches simulated on spaces whose every point is known. Pure; says nothing about models."""
