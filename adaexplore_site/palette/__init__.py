"""Navigation, the command palette, keyboard shortcuts, and search by name."""
