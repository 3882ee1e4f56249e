"""What people can do and where they can go: one table for navigation, palette, shortcut help, keys and tests."""
