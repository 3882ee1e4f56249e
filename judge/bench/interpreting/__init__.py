"""Triton and torch on the CPU: bounds, counted work, modelled time."""
