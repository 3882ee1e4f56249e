"""What people decide about clusters of failures."""
