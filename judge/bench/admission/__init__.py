"""Is a problem sound, worth solving, and what does it cost."""
