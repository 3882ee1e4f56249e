"""The page of a node and the actions on its kernel."""
