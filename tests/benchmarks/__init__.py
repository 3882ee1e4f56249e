"""Tools that measure the product: `python -m tests.benchmarks NAME`."""
