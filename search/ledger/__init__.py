"""Budgets as values: limits, books of what is spent and held, stops, prices of calls, forecasts. No Django."""
