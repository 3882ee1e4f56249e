"""Everything that changes rows of the judge. Keyword-only functions named `<noun>_<verb>`; one transaction each."""
