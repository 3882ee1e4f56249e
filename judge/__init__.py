"""Is it right, how fast, and can we believe it? Problems, devices, evaluations, measurements."""
