"""Devices: discovery, enrolment, drift, the benches of this process."""
