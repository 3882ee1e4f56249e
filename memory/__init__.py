"""What have we learned? Failures as fingerprints; rules grow from them."""
