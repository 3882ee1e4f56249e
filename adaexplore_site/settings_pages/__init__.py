"""The pages of Settings."""
