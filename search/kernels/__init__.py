"""The fastest believable kernel of each problem on each device, and who ties with it."""
