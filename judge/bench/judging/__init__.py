"""The child that decides: questions, right answers, allowed errors, verdicts."""
