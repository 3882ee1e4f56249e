"""The GPU itself: context, memory, locks, clocks."""
