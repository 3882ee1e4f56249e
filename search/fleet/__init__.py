"""Devices as a fleet: their work, health, queue, and remote jobs."""
