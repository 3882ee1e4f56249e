"""The child that runs one model: loads, obeys, watches over itself."""
