"""Rules in prompts: freezing, assignment to arms, use, and effect."""
