"""The life of a step: reserve, propose, judge, complete; leases, faults, recovery."""
