"""What next? Runs, nodes, proposals, events and operator actions."""
