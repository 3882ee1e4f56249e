"""The Adapt stage's pure parts: operators, new modules made of them, and whether memory helped. No Django, no torch."""
