"""Searches recorded elsewhere: read into checked values, their kernels as entries for the judge."""
